#pragma once
/// A second stack on which a function runs until it hands control back: how a host thread runs the
/// threads of a block. A fiber belongs to the host thread that made it.
#include <cstddef>
#include <memory>

namespace alpa::emulation {

class Fiber {
 public:
  /// `entry(argument)` runs at the first `resume` and must never return.
  Fiber(void (*entry)(void*), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  static constexpr unsigned kStrands = 2;
  /// Runs it until it calls `pause`, on one of its strands (sanitizers.h). Called from outside of
  /// fibers.
  void resume(unsigned strand);
  /// Back to `resume`. Called on this fiber.
  void pause();

 private:
  struct Context;
  friend struct FiberEntry;

  void (*entry_)(void*);
  void* argument_;
  char* stack_;
  std::unique_ptr<Context> context_;
};

}  // namespace alpa::emulation
