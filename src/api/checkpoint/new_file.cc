// src/api/checkpoint/new_file.cc — writes a file and waits until it is on the disk
#include "src/api/checkpoint/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/file.h"
#include "src/base/file_limit.h"

namespace alpa::checkpoint {

NewFile::NewFile(std::string path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (!file_) fail_write(path_, errno);
}

void NewFile::reserve(std::int64_t bytes) {
  const FileLimitFails limit;
  int error = EINTR;  // of a signal, such as the one that ends the run
  while (error == EINTR) error = ::posix_fallocate(file_.number(), 0, bytes);
  if (error != 0) fail_write(path_, error);
}

void NewFile::write(std::string_view bytes) {
  if (!write_all(file_.number(), std::span(&bytes, 1))) fail_write(path_, errno);
}

void NewFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void NewFile::write_direct(std::span<const std::byte> bytes) {
  const off_t begin = ::lseek(file_.number(), 0, SEEK_CUR);
  const std::size_t whole = bytes.size() / kDirectAlignment * kDirectAlignment;
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const bool aligned =
      begin >= 0 && (address | static_cast<std::uintptr_t>(begin)) % kDirectAlignment == 0;
  if (whole > 0 && aligned && ::fcntl(file_.number(), F_SETFL, O_DIRECT) == 0) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), whole);
    const int error = write_all(file_.number(), std::span(&text, 1)) ? 0 : errno;
    ::fcntl(file_.number(), F_SETFL, 0);
    if (error != 0 && error != EINVAL) fail_write(path_, error);
    bytes = bytes.subspan(::lseek(file_.number(), 0, SEEK_CUR) - begin);
  }
  write(bytes);
}

void NewFile::finish() {
  if (::fsync(file_.number()) != 0 || !file_.close()) fail_write(path_, errno);
}

}  // namespace alpa::checkpoint
