// src/base/mapped_file.cc — maps files into memory
#include "src/base/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "alpa/base/error.h"
#include "src/base/open_file.h"

namespace alpa {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const OpenedFile opened = open_to_read(path, shown_path(path), /*pipes=*/false);
  if (opened.bytes == 0) return;
  void* start = mmap(nullptr, opened.bytes, PROT_READ, MAP_PRIVATE, opened.file.number(), 0);
  if (start == MAP_FAILED) fail("{}: cannot be read: {}", shown_path(path), error_text(errno));
  bytes_ = {static_cast<const std::byte*>(start), opened.bytes};
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
