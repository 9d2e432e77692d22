#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(ALPA_EMULATION_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

#include "sanitizers.h"
#include "world.h"

namespace alpa::emulation {
namespace {

constexpr std::size_t kGuard = 4096;
#if defined(ALPA_EMULATION_ASAN) || defined(ALPA_EMULATION_TSAN)
constexpr std::size_t kStack = 256 * 1024;
#else
constexpr std::size_t kStack = 64 * 1024;
#endif

#if !defined(ALPA_EMULATION_ASAN) && !defined(ALPA_EMULATION_TSAN)
/// Of fibers that are gone: threads of streams come and go, each with hundreds. Sanitizers remember
/// what was on a stack, so there each is a new one. Guarded by the machine's mutex.
std::vector<char*>& used_stacks() {
  static auto* const stacks = new std::vector<char*>;
  return *stacks;
}

void give_back(char* stack) {
  const Lock lock(world().mutex);
  used_stacks().push_back(stack);
}

char* used_stack() {
  const Lock lock(world().mutex);
  if (used_stacks().empty()) return nullptr;
  char* const stack = used_stacks().back();
  used_stacks().pop_back();
  return stack;
}
#else
void give_back(char* stack) { munmap(stack - kGuard, kGuard + kStack); }
char* used_stack() { return nullptr; }
#endif

/// A stack whose overrun faults.
char* make_stack() {
  if (char* const stack = used_stack()) return stack;
  void* const memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuard, PROT_NONE) != 0) std::abort();
  return static_cast<char*>(memory) + kGuard;
}

}  // namespace

#if defined(__x86_64__)
// Saves the registers that a call keeps and the stack, and continues where another stack left off.
asm(R"(
.text
.type alpa_emulation_switch,@function
alpa_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size alpa_emulation_switch,.-alpa_emulation_switch
)");
extern "C" void alpa_emulation_switch(void** from, void* to);
#endif

struct Fiber::Context {
#if defined(__x86_64__)
  void *inside = nullptr, *outside = nullptr;
  void enter() { alpa_emulation_switch(&outside, inside); }
  void leave() { alpa_emulation_switch(&inside, outside); }
#else
  ucontext_t inside, outside;
  void enter() { swapcontext(&outside, &inside); }
  void leave() { swapcontext(&inside, &outside); }
#endif
#if defined(ALPA_EMULATION_ASAN)
  void *inside_frames = nullptr, *outside_frames = nullptr;
  const void* outside_stack = nullptr;
  std::size_t outside_size = 0;
#endif
  std::unique_ptr<Strand> strands[kStrands];
  Strand* strand = nullptr;  ///< on which it runs
};

struct FiberEntry {
  static inline thread_local Fiber* entering = nullptr;

  static void run() {
    Fiber* const fiber = entering;
#if defined(ALPA_EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &fiber->context_->outside_stack,
                                    &fiber->context_->outside_size);
#endif
    fiber->entry_(fiber->argument_);
    std::abort();
  }
};

Fiber::Fiber(void (*entry)(void*), void* argument)
    : entry_(entry),
      argument_(argument),
      stack_(make_stack()),
      context_(std::make_unique<Context>()) {
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(stack_ + kStack);
  *--top = nullptr;  // the stack is where it would be after a call
  *--top = reinterpret_cast<void*>(&FiberEntry::run);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  context_->inside = top;
#else
  getcontext(&context_->inside);
  context_->inside.uc_stack.ss_sp = stack_;
  context_->inside.uc_stack.ss_size = kStack;
  context_->inside.uc_link = nullptr;
  makecontext(&context_->inside, &FiberEntry::run, 0);
#endif
}

Fiber::~Fiber() { give_back(stack_); }

void Fiber::resume(unsigned strand) {
  if (!context_->strands[strand]) context_->strands[strand] = std::make_unique<Strand>();
  context_->strand = context_->strands[strand].get();
  FiberEntry::entering = this;
#if defined(ALPA_EMULATION_ASAN)
  __sanitizer_start_switch_fiber(&context_->outside_frames, stack_, kStack);
#endif
  context_->strand->enter();
  context_->enter();
#if defined(ALPA_EMULATION_ASAN)
  __sanitizer_finish_switch_fiber(context_->outside_frames, nullptr, nullptr);
#endif
}

void Fiber::pause() {
#if defined(ALPA_EMULATION_ASAN)
  __sanitizer_start_switch_fiber(&context_->inside_frames, context_->outside_stack,
                                 context_->outside_size);
#endif
  context_->strand->leave();
  context_->leave();
#if defined(ALPA_EMULATION_ASAN)
  __sanitizer_finish_switch_fiber(context_->inside_frames, &context_->outside_stack,
                                  &context_->outside_size);
#endif
}

}  // namespace alpa::emulation
