// src/base/file.cc — reads files within limits of size, and replaces them atomically
#include "src/base/file.h"
#include "src/base/launch_hooks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>

#include "alpa/base/error.h"
#include "src/base/file_limit.h"

namespace alpa {
namespace {

/// "cluster file x.json", or the path alone.
std::string title(const std::string& path, const FileKind& kind) {
  return kind.name.empty() ? shown_path(path) : fmt::format("{} {}", kind.name, shown_path(path));
}

/// read(2) again where a signal broke it off.
ssize_t read_some(int file, char* to, std::size_t size) {
  ssize_t got = 0;
  do got = ::read(file, to, size);
  while (got < 0 && errno == EINTR);
  return got;
}

[[noreturn]] void fail_too_large(const std::string& path, const FileKind& kind) {
  fail("{}: it holds more than {} bytes, the most that is read", title(path, kind), kind.max_bytes);
}

[[noreturn]] void fail_memory(const std::string& path, const FileKind& kind) {
  fail("{}: its content does not fit in memory", title(path, kind));
}

/// Everything up to the end, read in growing steps: what a pipe or a file of /proc
/// holds is not known before.
std::string read_all(const OpenedFile& opened, const std::string& path, const FileKind& kind) {
  const auto most = static_cast<std::size_t>(kind.max_bytes);
  std::string content = opened.start;
  std::size_t size = content.size();
  content.resize(std::max(std::min(std::max<std::size_t>(opened.bytes, 4096), most), size) + 1);
  while (true) {
    const ssize_t got =
        read_some(opened.file.number(), content.data() + size, content.size() - size);
    if (got < 0) fail("{}: cannot be read: {}", title(path, kind), error_text(errno));
    size += static_cast<std::size_t>(got);
    if (size > most) fail_too_large(path, kind);
    if (got == 0) break;
    if (size == content.size()) content.resize(std::min(2 * size, most) + 1);
  }
  content.resize(size);
  return content;
}

using Parts = std::span<const std::string_view>;

/// A new file beside `path`, and its name. Names that are taken are of programs that were killed
/// while they wrote, and had the same process number.
std::pair<Descriptor, std::string> temporary_beside(const std::string& path) {
  static std::atomic<int> count{0};
  while (true) {
    std::string name = fmt::format("{}.{}.{}.tmp", path, ::getpid(), count++);
    Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file || errno != EEXIST) return {std::move(file), std::move(name)};
  }
}

/// Writes beside `target`, which is `path` without links, then renames. `mode`: permissions of the
/// file that is replaced, or 0 if there is none, or they are not kept.
void replace(const std::string& path, const std::string& target, Parts text, mode_t mode) {
  const std::string_view consequence = mode == 0 ? "" : "; what it held before is unchanged";
  auto [file, temporary] = temporary_beside(target);
  if (!file) fail_write(path, errno, consequence);
  const bool written = (mode == 0 || ::fchmod(file.number(), mode & 07777) == 0) &&
                       write_all(file.number(), text) && ::fsync(file.number()) == 0 &&
                       file.close() && ::rename(temporary.c_str(), target.c_str()) == 0;
  if (written) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  fail_write(path, error, consequence);
}

}  // namespace

bool write_all(int file, std::span<const std::string_view> parts) {
  const FileLimitFails limit;
  for (std::string_view text : parts)
    while (!text.empty()) {
      const ssize_t written = ::write(file, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  return true;
}

void fail_write(const std::string& path, int error, std::string_view consequence) {
  fail("{}: cannot be written: {}{}", shown_path(path), error_text(error), consequence);
}

std::string read_file(const std::string& path, const FileKind& kind) {
  try {
    const OpenedFile opened = open_to_read(path, title(path, kind), kind.pipes);
    return unpack(read_all(opened, path, kind), path, kind);
  } catch (const std::bad_alloc&) {
    fail_memory(path, kind);
  }
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::span(&text, 1));
}

void write_file(const std::string& path, Parts parts) {
  if (!writes_files()) return;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) fail_write(path, errno);
    return replace(path, path, parts, 0);
  }
  if (!S_ISREG(info.st_mode) || standard_stream(info)) {
    Descriptor file = open_to_write(path);
    if (!write_all(file.number(), parts) || !file.close()) fail_write(path, errno);
    return;
  }
  std::error_code failure;
  // a link stays a link
  const std::string target = std::filesystem::canonical(path, failure).string();
  if (failure) fail_write(path, failure.value());
  replace(path, target, parts, info.st_mode);
}

void replace_file(const std::string& path, std::string_view text) {
  replace(path, path, std::span(&text, 1), 0);
}

GrowingFile::GrowingFile(const std::string& path, std::string_view start) : path_(path) {
  if (!writes_files()) return;
  struct stat info {};
  const bool replaced =
      ::stat(path.c_str(), &info) != 0 || (S_ISREG(info.st_mode) && !standard_stream(info));
  if (replaced) write_file(path, start);
  Descriptor file =
      replaced ? Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK))
               : open_to_write(path);
  if (!file) fail_write(path, errno);
  file_ = std::make_shared<Descriptor>(std::move(file));
  if (!replaced) add(start);
}

void GrowingFile::add(std::string_view text) {
  if (!file_) return;
  std::fflush(stdout);  // the file may be there, too
  if (!write_all(file_->number(), std::span(&text, 1))) fail_write(path_, errno);
}

}  // namespace alpa
