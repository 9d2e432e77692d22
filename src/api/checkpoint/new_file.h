#pragma once
/// A file that is written once, and durable when it is finished.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/open_file.h"

namespace alpa::checkpoint {

/// The alignment of memory and of places in a file for `NewFile::write_direct`.
inline constexpr std::size_t kDirectAlignment = 4096;

/// Every call throws Error naming the file and the system's reason.
class NewFile {
 public:
  /// Makes the file; there must be none.
  explicit NewFile(std::string path);
  /// Takes the space on the disk now: a full one is known before anything is written.
  void reserve(std::int64_t bytes);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes);
  /// The same past the page cache, where the file system allows it: training keeps the cores that a
  /// second copy would take. Only whole pages of memory at whole pages of the file go that way.
  void write_direct(std::span<const std::byte> bytes);
  /// Waits until all is on the disk.
  void finish();

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace alpa::checkpoint
