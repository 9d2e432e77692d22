// src/checkpoint/new_file.cc — writes a file and waits until it is on the disk
#include "src/checkpoint/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/file.h"

namespace alpa::checkpoint {

NewFile::NewFile(std::string path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (!file_) fail_write(path_, errno);
}

void NewFile::reserve(std::int64_t bytes) {
  if (const int error = ::posix_fallocate(file_.number(), 0, bytes)) fail_write(path_, error);
}

void NewFile::write(std::string_view bytes) {
  if (!write_all(file_.number(), std::span(&bytes, 1))) fail_write(path_, errno);
}

void NewFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void NewFile::finish() {
  if (::fsync(file_.number()) != 0 || !file_.close()) fail_write(path_, errno);
}

}  // namespace alpa::checkpoint
