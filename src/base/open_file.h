#pragma once
/// Opening of files that users name. They may be pipes, whose other end another program opens: no
/// open waits for it longer than half a second. Shells start both ends of a pipe together, so that
/// the other end is there within milliseconds, on a busy machine within tenths of a second; and
/// whoever named a pipe that nobody serves is told so within a second.
#include <sys/stat.h>

#include <cstdio>
#include <string>
#include <utility>

namespace alpa {

/// "No such file or directory" of an error number of the system.
std::string error_text(int error);

/// A path as messages show it, in one printable line: names in folders can hold any bytes.
std::string shown_path(const std::string& path);

/// An open file; closed at the end. Moved from: none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  /// False, with errno set, if closing reports a failed write.
  bool close();

 private:
  int number_;
};

/// A file that is open for reading.
struct OpenedFile {
  Descriptor file;
  std::size_t bytes = 0;   ///< of a regular file; 0 of a pipe
  std::string start = {};  ///< what was read of a pipe, to see that it has a writer
};

/// Opens a regular file, or, if `pipes`, a pipe that has a writer, had one, or gets one within the
/// time above. Reading then waits as long as the writer needs. Throws Error that begins with
/// `title`, e.g. "plan file x.json".
OpenedFile open_to_read(const std::string& path, const std::string& title, bool pipes);

/// Opens a pipe or device that exists, or what this program's stdout or stderr is, behind all that
/// was printed before. A pipe must have a reader, or get one within the time above.
/// Writing then waits as long as the reader needs. Throws Error that begins with `path`.
Descriptor open_to_write(const std::string& path);

/// The standard stream that `info` is, or nullptr: a program may be told to write its report to
/// /dev/stdout.
std::FILE* standard_stream(const struct stat& info);

}  // namespace alpa
