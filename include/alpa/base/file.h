#pragma once
/// Files: the one way to read and to write them. Every failure is an Error that names the file.
#include <cstdint>
#include <string>
#include <string_view>

namespace alpa {

/// What a file is to the user, and how much of it is read.
struct FileKind {
  std::string_view name;       ///< in messages before the path, e.g. "cluster file"; may be empty
  std::int64_t max_bytes = 0;  ///< of its content, unpacked; more is an Error before it fills the memory
};

/// The content of a file or pipe, unpacked if it is gzip'd. Throws Error if `path` is a folder or device,
/// can't be read, is damaged, or holds more than `kind` allows.
std::string read_file(const std::string& path, const FileKind& kind);

/// `bytes` as they are, or unpacked if they are gzip'd. Throws Error, which names `path`, if they are
/// damaged or expand beyond what `kind` allows, or beyond 256 times their size and 16 MiB.
std::string unpack(std::string bytes, const std::string& path, const FileKind& kind);

/// Makes `text` the content of `path`. A regular file gets it at once, by renaming a temporary file of the
/// same folder: on failure the old content stays, and Error says why. A pipe or device is written to.
void write_file(const std::string& path, std::string_view text);

}  // namespace alpa
