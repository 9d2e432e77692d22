#pragma once
/// Threads that do not run, as if other programs had their cores.
#include <dirent.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

namespace alpa::testing {

/// Keeps every other thread that the process has now in a signal handler, from construction to
/// destruction. Not under ThreadSanitizer, which delays signals.
class HeldThreads {
 public:
  HeldThreads() {
    struct sigaction action = {};
    action.sa_handler = hold;
    REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
    holding_ = true;
    const std::vector<pid_t> others = other_threads();
    for (pid_t thread : others) REQUIRE(syscall(SYS_tgkill, getpid(), thread, SIGUSR1) == 0);
    while (held_ < static_cast<int>(others.size())) std::this_thread::yield();
  }
  ~HeldThreads() {
    holding_ = false;
    while (held_ > 0) std::this_thread::yield();
  }
  HeldThreads(const HeldThreads&) = delete;
  HeldThreads& operator=(const HeldThreads&) = delete;

 private:
  static void hold(int) {
    ++held_;
    while (holding_) usleep(1000);
    --held_;
  }

  static std::vector<pid_t> other_threads() {
    std::vector<pid_t> threads;
    DIR* const tasks = opendir("/proc/self/task");
    REQUIRE(tasks != nullptr);
    while (const dirent* task = readdir(tasks))
      if (const pid_t thread = std::atoi(task->d_name); thread > 0 && thread != syscall(SYS_gettid))
        threads.push_back(thread);
    closedir(tasks);
    return threads;
  }

  static inline std::atomic<bool> holding_{false};
  static inline std::atomic<int> held_{0};
};

/// True if `call`, on a new thread, returns while all threads that exist now are
/// held; it gets 20 seconds.
template <class Call>
bool returns_without_others(Call&& call) {
  std::atomic<bool> done{false};
  bool in_time = false;
  std::thread caller;
  {
    const HeldThreads held;
    caller = std::thread([&] {
      call();
      done = true;
    });
    for (int i = 0; i < 2000 && !done; ++i) usleep(10000);
    in_time = done;
  }
  caller.join();
  return in_time;
}

}  // namespace alpa::testing
