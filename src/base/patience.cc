#include "alpa/base/patience.h"

#include <thread>

#include "alpa/base/thread_team.h"

namespace alpa {

Patience::Patience(int waiters) : spins_(waiters <= usable_cores() ? 300 : 0) {}

void Patience::relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void Patience::yield() { std::this_thread::yield(); }

}  // namespace alpa
