#pragma once
/// What ThreadSanitizer is told. The emulation synchronises its threads in ways that it must
/// not see (`Unseen`), or accidents of timing would pass for order; what CUDA orders it is told
/// through `release` and `acquire`. A missing dependency between two streams is thereby
/// reported as a race even if the streams never ran at the same time. Without ThreadSanitizer
/// nothing here does anything.
#if defined(ALPA_EMULATION_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace alpa::emulation {

#if defined(ALPA_EMULATION_TSAN)
inline void begin_unseen() {
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void end_unseen() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}
#else
inline void begin_unseen() {}
inline void end_unseen() {}
#endif

/// The emulation's own doings; not nested.
struct Unseen {
  Unseen() { begin_unseen(); }
  ~Unseen() { end_unseen(); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};
/// Within them, what the emulated program does.
struct Seen {
  Seen() { end_unseen(); }
  ~Seen() { begin_unseen(); }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
};

/// What came before `release(at)` on its thread comes before what follows a later `acquire(at)`.
inline void release([[maybe_unused]] void* at) {
#if defined(ALPA_EMULATION_TSAN)
  __tsan_release(at);
#endif
}
inline void acquire([[maybe_unused]] void* at) {
#if defined(ALPA_EMULATION_TSAN)
  __tsan_acquire(at);
#endif
}
/// The same, called in an Unseen.
inline void release_unseen(void* at) {
  const Seen seen;
  release(at);
}
inline void acquire_unseen(void* at) {
  const Seen seen;
  acquire(at);
}

#if defined(ALPA_EMULATION_TSAN)
/// A thread as ThreadSanitizer counts them, which lives on a host thread: nothing orders two of
/// them but release and acquire.
class Strand {
 public:
  Strand() : strand_(__tsan_create_fiber(0)) {}
  ~Strand() { __tsan_destroy_fiber(strand_); }
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;
  __attribute__((noinline, no_sanitize("thread"))) void enter() {
    outer_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(strand_, __tsan_switch_to_fiber_no_sync);
  }
  __attribute__((noinline, no_sanitize("thread"))) void leave() {
    __tsan_switch_to_fiber(outer_, __tsan_switch_to_fiber_no_sync);
  }

 private:
  void *strand_, *outer_ = nullptr;
};
#else
class Strand {
 public:
  void enter() {}
  void leave() {}
};
#endif

}  // namespace alpa::emulation
