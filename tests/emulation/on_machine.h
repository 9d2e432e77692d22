#pragma once
/// Emulated machines of a test.
#include "cuda/own_cache.h"
#include "emulation.h"

namespace alpa::testing {

/// A machine of its own, and a cache, while it lives.
struct On {
  explicit On(const emulation::Machine& machine) { emulation::restart(machine); }
  ~On() { emulation::restart({}); }
  OwnCache cache = {};
};

}  // namespace alpa::testing
