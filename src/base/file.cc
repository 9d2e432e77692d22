// src/base/file.cc — reads files within limits of size, and replaces them atomically
#include "src/base/file.h"

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

namespace alpa {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

/// "cluster file x.json", or the path alone.
std::string title(const std::string& path, const FileKind& kind) {
  return kind.name.empty() ? path : fmt::format("{} {}", kind.name, path);
}

/// An open file; closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  /// False, with errno set, if closing reports a failed write.
  bool close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

/// Why files of this type are refused; "" if they are read.
std::string_view refusal(mode_t mode) {
  if (S_ISREG(mode) || S_ISFIFO(mode)) return "";
  return S_ISDIR(mode) ? "it is a folder, not a file" : "it is a device, not a file";
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
std::string read_all(int file, std::size_t expected, const std::string& path,
                     const FileKind& kind) {
  const auto most = static_cast<std::size_t>(kind.max_bytes);
  std::string content;
  std::size_t size = 0;
  content.resize(std::min(std::max<std::size_t>(expected, 4096), most) + 1);
  while (true) {
    const ssize_t got = read_some(file, content.data() + size, content.size() - size);
    if (got < 0) fail("{}: cannot be read: {}", title(path, kind), reason(errno));
    size += static_cast<std::size_t>(got);
    if (size > most) fail_too_large(path, kind);
    if (got == 0) break;
    if (size == content.size()) content.resize(std::min(2 * size, most) + 1);
  }
  content.resize(size);
  return content;
}

std::string read_bytes(const std::string& path, const FileKind& kind) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    fail("{}: cannot be read: {}", title(path, kind), reason(errno));
  if (const std::string_view why = refusal(info.st_mode); !why.empty())
    fail("{}: cannot be read: {}", title(path, kind), why);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail("{}: cannot be read: {}", title(path, kind), reason(errno));
  return read_all(file.number(), S_ISREG(info.st_mode) ? static_cast<std::size_t>(info.st_size) : 0,
                  path, kind);
}

using Parts = std::span<const std::string_view>;

/// False with errno set if not all of `parts` could be written.
bool write_all(int file, Parts parts) {
  for (std::string_view text : parts)
    while (!text.empty()) {
      const ssize_t written = ::write(file, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  return true;
}

[[noreturn]] void fail_write(const std::string& path, int error,
                             std::string_view consequence = "") {
  fail("{}: cannot be written: {}{}", path, reason(error), consequence);
}

/// Writes to a pipe or device, whose old content need not be kept.
void write_through(const std::string& path, Parts text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || !write_all(file.number(), text) || !file.close()) fail_write(path, errno);
}

/// The standard stream that `info` is, or nullptr: a program may be told to write
/// its report to /dev/stdout.
std::FILE* standard_stream(const struct stat& info) {
  for (std::FILE* stream : {stdout, stderr}) {
    struct stat own {};
    if (::fstat(::fileno(stream), &own) == 0 && own.st_dev == info.st_dev &&
        own.st_ino == info.st_ino)
      return stream;
  }
  return nullptr;
}

/// Flushes what the program printed before.
void write_to_stream(std::FILE* stream, const std::string& path, Parts text) {
  if (std::fflush(stream) != 0 || !write_all(::fileno(stream), text)) fail_write(path, errno);
}

/// A name beside `path` that no other writer uses.
std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}.{}.tmp", path, ::getpid(), count++);
}

/// Writes beside `target`, which is `path` without links, then renames. `mode`: permissions of the
/// file that is replaced, or 0 if there is none.
void replace(const std::string& path, const std::string& target, Parts text, mode_t mode) {
  const std::string_view consequence = mode == 0 ? "" : "; what it held before is unchanged";
  const std::string temporary = temporary_name(target);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
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

std::string read_file(const std::string& path, const FileKind& kind) {
  try {
    return unpack(read_bytes(path, kind), path, kind);
  } catch (const std::bad_alloc&) {
    fail_memory(path, kind);
  }
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::span(&text, 1));
}

void write_file(const std::string& path, Parts parts) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) fail_write(path, errno);
    return replace(path, path, parts, 0);
  }
  if (std::FILE* stream = standard_stream(info)) return write_to_stream(stream, path, parts);
  if (!S_ISREG(info.st_mode)) return write_through(path, parts);
  std::error_code failure;
  // a link stays a link
  const std::string target = std::filesystem::canonical(path, failure).string();
  if (failure) fail_write(path, failure.value());
  replace(path, target, parts, info.st_mode);
}

}  // namespace alpa
