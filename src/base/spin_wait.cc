// src/base/spin_wait.cc — spinning, yielding and sleeping on a futex
#include "src/base/spin_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "src/base/launch_hooks.h"
#include "src/base/thread_team.h"

namespace alpa {

static_assert(sizeof(SpinWait::Word) == 4 && SpinWait::Word::is_always_lock_free,
              "a futex is 32 bits");

SpinWait::SpinWait(int threads)
    : may_spin_(threads * launch_hooks().sharing_cores <= usable_cores()) {}

void SpinWait::relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

bool SpinWait::yield() {
  constexpr std::chrono::milliseconds kLong{2};
  constexpr std::chrono::milliseconds kLately{250};
  static std::atomic<Clock::rep> not_before{Clock::time_point::min().time_since_epoch().count()};
  const Clock::time_point start = Clock::now();
  if (start.time_since_epoch().count() < not_before.load(std::memory_order_relaxed)) return false;
  std::this_thread::yield();
  const Clock::time_point end = Clock::now();
  if (end - start < kLong) return true;
  not_before.store((end + kLately).time_since_epoch().count(), std::memory_order_relaxed);
  return false;
}

// Not std::atomic::wait: libstdc++'s yields before it sleeps.
void SpinWait::sleep(const Word& word, std::uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void SpinWait::sleep(const Word& word, std::uint32_t value, std::chrono::nanoseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec limit{seconds.count(), (timeout - seconds).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &limit, nullptr, 0);
}

void SpinWait::wake_sleepers(Word& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace alpa
