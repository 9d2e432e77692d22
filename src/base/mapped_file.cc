// src/base/mapped_file.cc — maps files into memory
#include "src/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "alpa/base/error.h"

namespace alpa {
namespace {

[[noreturn]] void fail_to_read(const std::string& path, int error) {
  fail("{}: cannot be read: {}", path, std::generic_category().message(error));
}

/// The pages of an open file.
std::span<const std::byte> map(int file, const std::string& path) {
  struct stat info {};
  if (fstat(file, &info) != 0) fail_to_read(path, errno);
  require(S_ISREG(info.st_mode), "{}: cannot be mapped: it is not a regular file", path);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return {};
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (start == MAP_FAILED) fail_to_read(path, errno);
  return {static_cast<const std::byte*>(start), size};
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail_to_read(path, errno);
  try {
    bytes_ = map(file, path);
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  // munmap takes what mmap returned, which was not const.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace alpa
