// src/processes/launch_output.cc — marks the lines that ranks other than 0 print on stderr
#include "src/processes/launch_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace alpa::processes {
namespace {

/// The stderr of the process, a pipe in its place, and whether all from the pipe is out.
struct Marked {
  int real = -1, pipe = -1;
  std::string mark;
  std::atomic<bool> drained{false};
};

Marked& marked() {
  static Marked& marked = *new Marked;  // its thread outlives static objects
  return marked;
}

void write_whole(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Passes lines on until the pipe has no writer.
void pass_lines_on() {
  Marked& all = marked();
  std::string line;
  char buffer[4096];
  for (ssize_t count; (count = ::read(all.pipe, buffer, sizeof buffer)) > 0;)
    for (const char c : std::string_view(buffer, static_cast<std::size_t>(count))) {
      line += c;
      if (c != '\n') continue;
      write_whole(all.real, all.mark + line);
      line.clear();
    }
  if (!line.empty()) write_whole(all.real, all.mark + line + '\n');
  all.drained = true;
}

/// Until a launcher has read what is in the pipe: one that is told to end all processes first
/// sometimes reads no more. At most 0.5 s.
void wait_for_reader(int file) {
  for (int i = 0, unread = 0; i < 500; ++i) {
    if (::ioctl(file, FIONREAD, &unread) != 0 || unread == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void divide_output(const Launcher& launcher) {
  if (launcher.rank == 0) return;
  // libalpa_cuda.so holds a copy of this code, whose marks would come on top.
  constexpr const char* kMarked = "ALPA_MARKED_PROCESS";
  const std::string self = std::to_string(::getpid());
  if (const char* const marked = std::getenv(kMarked); marked && marked == self) return;
  ::setenv(kMarked, self.c_str(), 1);
  if (const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC); null >= 0) {
    ::dup2(null, STDOUT_FILENO);
    ::close(null);
  }
  char host[HOST_NAME_MAX + 1] = "?";
  ::gethostname(host, sizeof host - 1);
  const std::string of = launcher.size > 0 ? fmt::format(" of {}", launcher.size) : "";
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  Marked& all = marked();
  all.mark = fmt::format("[rank {}{}, host {}] ", launcher.rank, of, host);
  all.pipe = ends[0];
  all.real = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (all.real < 0) return;
  std::fflush(stderr);
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[1]);
  std::thread(pass_lines_on).detach();
  std::atexit(flush_output);
}

void flush_output() {
  Marked& all = marked();
  std::fflush(stderr);
  if (all.real >= 0 && !all.drained) {
    ::dup2(all.real, STDERR_FILENO);
    // A child of this process may keep the pipe open.
    for (int i = 0; i < 300 && !all.drained; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const int file : {STDOUT_FILENO, STDERR_FILENO}) wait_for_reader(file);
}

}  // namespace alpa::processes
