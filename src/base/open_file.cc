// src/base/open_file.cc — opens files and pipes without waiting for a pipe's other end for ever
#include "src/base/open_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/timing.h"

namespace alpa {
namespace {

/// How long the other end of a pipe may take to be opened, and how often it is looked for.
constexpr double kPeerSeconds = 0.5;
constexpr int kPollMilliseconds = 10;

/// Why files of this type are not read; "" if they are.
std::string_view refusal(const struct stat& info, bool pipes) {
  if (S_ISREG(info.st_mode)) return "";
  if (S_ISDIR(info.st_mode)) return "it is a folder, not a file";
  if (!S_ISFIFO(info.st_mode)) return "it is a device, not a file";
  if (!pipes) return "it is a pipe, not a file";
  return standard_stream(info) ? "it is this program's own output" : "";
}

/// From now on reading and writing wait for the other end.
void wait_from_now_on(int file) { ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK); }

/// What the writer of a pipe has written so far; "" if it has ended before, or is still to write.
/// Throws Error if no writer comes.
std::string start_of_pipe(int pipe, const std::string& title) {
  const Stopwatch watch;
  char bytes[4096];
  while (true) {
    const ssize_t got = ::read(pipe, bytes, sizeof bytes);
    if (got > 0) return {bytes, static_cast<std::size_t>(got)};
    if (got < 0 && errno == EAGAIN) return "";
    if (got < 0 && errno != EINTR) fail("{}: cannot be read: {}", title, error_text(errno));
    if (watch.seconds() > kPeerSeconds)
      fail("{}: cannot be read: it is a pipe that no program writes to", title);
    pollfd ends{.fd = pipe, .events = POLLIN, .revents = 0};
    ::poll(&ends, 1, kPollMilliseconds);
    if ((ends.revents & (POLLHUP | POLLIN)) == POLLHUP) return "";  // a writer came and went
  }
}

}  // namespace

std::string shown_path(const std::string& path) {
  constexpr std::size_t kMost = 500;
  return excerpt(path, kMost);
}

std::string error_text(int error) { return std::generic_category().message(error); }

bool Descriptor::close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0; }

OpenedFile open_to_read(const std::string& path, const std::string& title, bool pipes) {
  const auto require_readable = [&](bool known, const struct stat& info) {
    if (!known) fail("{}: cannot be read: {}", title, error_text(errno));
    if (const std::string_view why = refusal(info, pipes); !why.empty())
      fail("{}: cannot be read: {}", title, why);
  };
  struct stat info {};
  // Looked at before, because opening a device may act on it, and after, because the name may have
  // become another file's.
  require_readable(::stat(path.c_str(), &info) == 0, info);
  OpenedFile opened{
      .file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY))};
  require_readable(opened.file && ::fstat(opened.file.number(), &info) == 0, info);
  if (S_ISREG(info.st_mode)) {
    opened.bytes = static_cast<std::size_t>(info.st_size);
  } else {
    opened.start = start_of_pipe(opened.file.number(), title);
    wait_from_now_on(opened.file.number());
  }
  return opened;
}

Descriptor open_to_write(const std::string& path) {
  struct stat named {};
  std::FILE* stream = ::stat(path.c_str(), &named) == 0 ? standard_stream(named) : nullptr;
  if (stream) {
    Descriptor file(std::fflush(stream) == 0 ? ::fcntl(::fileno(stream), F_DUPFD_CLOEXEC, 0) : -1);
    if (!file) fail("{}: cannot be written: {}", shown_path(path), error_text(errno));
    return file;
  }
  const Stopwatch watch;
  while (true) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file) return wait_from_now_on(file.number()), std::move(file);
    const int error = errno;
    const bool no_reader = error == ENXIO && S_ISFIFO(named.st_mode);
    if (!no_reader && error != EINTR)
      fail("{}: cannot be written: {}", shown_path(path), error_text(error));
    if (watch.seconds() > kPeerSeconds)
      fail("{}: cannot be written: it is a pipe that no program reads", shown_path(path));
    ::poll(nullptr, 0, kPollMilliseconds);
  }
}

std::FILE* standard_stream(const struct stat& info) {
  for (std::FILE* stream : {stdout, stderr}) {
    struct stat own {};
    if (::fstat(::fileno(stream), &own) == 0 && own.st_dev == info.st_dev &&
        own.st_ino == info.st_ino)
      return stream;
  }
  return nullptr;
}

}  // namespace alpa
