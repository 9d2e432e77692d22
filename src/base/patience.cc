#include "alpa/base/patience.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace alpa {

static_assert(sizeof(Patience::Word) == 4 && Patience::Word::is_always_lock_free, "a futex is 32 bits");

void Patience::relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Not std::atomic::wait: libstdc++'s yields before it sleeps.
void Patience::sleep(const Word& word, std::uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void Patience::wake_sleepers(Word& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace alpa
