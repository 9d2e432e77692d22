#pragma once
/// Files that are read where the kernel maps them: only the pages that are touched take memory.
#include <cstddef>
#include <span>
#include <string>

namespace alpa {

/// The content of a regular file, until this object is gone. Nobody may shorten the file meanwhile.
class MappedFile {
 public:
  /// Throws Error naming the file if it is not a regular file or can't be read.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace alpa
