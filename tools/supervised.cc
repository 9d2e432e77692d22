// tools/supervised.cc — alpa launch: starts a command, passes signals on, and leaves no orphans
#include "tools/supervised.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <thread>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/timing.h"

namespace launch {
namespace {

using namespace std::chrono_literals;

/// How long processes may outlive the command, and how long the system may take to end them then.
constexpr auto kPatience = 2s, kEnd = 10s;

/// Those that ask a program to end.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  return set;
}

/// Blocks the signals that are waited for.
class Blocked {
 public:
  Blocked() : waited_(ending_signals()) {
    sigaddset(&waited_, SIGCHLD);
    std::signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &waited_, &before_);
  }
  ~Blocked() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

  /// The next one; 0 when `most` is over.
  int next(std::chrono::milliseconds most) const {
    const timespec limit{most.count() / 1000, most.count() % 1000 * 1'000'000};
    const int signal = sigtimedwait(&waited_, nullptr, &limit);
    return signal > 0 ? signal : 0;
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t waited_, before_{};
};

/// In the new process. What goes wrong is written into `why`, as errno.
[[noreturn]] void become(const std::vector<std::string>& words, const sigset_t& mask, pid_t parent,
                         int why) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);
  // It is in the background of a terminal: reading there fails instead of stopping it.
  if (isatty(STDIN_FILENO)) std::signal(SIGTTIN, SIG_IGN), std::signal(SIGTTOU, SIG_IGN);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int failure = errno;
  if (write(why, &failure, sizeof failure) < 0) _exit(126);
  _exit(127);
}

pid_t start(const std::vector<std::string>& words, const sigset_t& mask) {
  int ends[2];
  alpa::require(pipe2(ends, O_CLOEXEC) == 0, "no pipe is left: {}",
                std::generic_category().message(errno));
  const pid_t self = getpid(), child = fork();
  if (child == 0) become(words, mask, self, ends[1]);
  close(ends[1]);
  int failure = child < 0 ? errno : 0;
  if (child > 0 && read(ends[0], &failure, sizeof failure) > 0) waitpid(child, nullptr, 0);
  close(ends[0]);
  alpa::require(failure == 0, "{} does not start: {}", alpa::excerpt(words[0]),
                std::generic_category().message(failure));
  return child;
}

/// Processes whose parent is this one.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  DIR* const folder = opendir("/proc");
  if (!folder) return found;
  while (const dirent* const entry = readdir(folder)) {
    const pid_t process = std::atoi(entry->d_name);
    if (process <= 0) continue;
    std::ifstream file("/proc/" + std::string(entry->d_name) + "/stat");
    std::string text;
    std::getline(file, text);
    // "4711 (name, of any characters) S 4710 …"
    const std::size_t end = text.rfind(')');
    if (end != text.npos && text.size() > end + 4 && std::atoi(text.c_str() + end + 4) == getpid())
      found.push_back(process);
  }
  closedir(folder);
  return found;
}

/// The command has ended: nor does a process stay that it started.
void end_the_rest() {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended < 0 && errno == ECHILD) return;
    if (ended > 0) continue;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= kEnd) return;
    if (waited >= kPatience)
      for (const pid_t child : children()) kill(child, SIGKILL);
    std::this_thread::sleep_for(10ms);
  }
}

int status_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Ending run_supervised(const std::vector<std::string>& words) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of the command become children of this process
  const Blocked blocked;
  const pid_t command = start(words, blocked.before());
  Ending ending;
  const alpa::Stopwatch watch;
  for (bool ended = false; !ended;) {
    const int signal = blocked.next(1h);
    if (signal != 0 && signal != SIGCHLD) kill(-command, ending.passed_on = signal);
    int status = 0;
    for (pid_t one; (one = waitpid(-1, &status, WNOHANG)) > 0;)
      if (one == command) ended = true, ending.status = status_of(status);
  }
  ending.seconds = watch.seconds();
  end_the_rest();
  if (const int late = blocked.next(0ms); late != 0 && late != SIGCHLD) ending.passed_on = late;
  return ending;
}

}  // namespace launch
