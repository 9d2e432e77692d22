#pragma once
/// Reading and writing of files. Every failure is an Error that names the file.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "alpa/base/program.h"
#include "src/base/open_file.h"

namespace alpa {

/// A kind of file: its name in messages, and the most that is read of it.
struct FileKind {
  std::string_view name;  ///< in messages before the path, e.g. "cluster file"; may be empty
  /// of unpacked content; a larger file is an Error, thrown before it fills memory
  std::int64_t max_bytes = 0;
  bool pipes = true;  ///< false: only regular files, where the user did not name this very file
};

/// The content of a file or pipe, unpacked if it is gzip'd. Throws Error if `path` is a folder or
/// device, a pipe without a writer (`open_to_read`), can't be read, is damaged, or holds more than
/// `kind` allows.
std::string read_file(const std::string& path, const FileKind& kind);

/// Unpacks `bytes` if they are gzip'd; returns others unchanged. Throws Error naming
/// `path` if they are damaged, or expand beyond what `kind` allows, or beyond both 256
/// times their size and 16 MiB.
std::string unpack(std::string bytes, const std::string& path, const FileKind& kind);

/// Writes all of `parts` to an open file. False, with errno set, if not all could be written.
bool write_all(int file, std::span<const std::string_view> parts);

/// Throws Error: `path` cannot be written, for the system's reason `error`.
[[noreturn]] void fail_write(const std::string& path, int error, std::string_view consequence = "");

/// `write_file` for a text in several parts.
void write_file(const std::string& path, std::span<const std::string_view> parts);

/// Puts a regular file of `text` at `path`, in place of whatever is there except a folder: a link
/// and a pipe go, too. Throws Error if that fails.
void replace_file(const std::string& path, std::string_view text);

}  // namespace alpa
