#pragma once
/// What every implementation of a wire promises (src/processes/wire.h), as checks. All processes of
/// a launch run them together.
#include <cstdint>
#include <string>
#include <vector>

#include "src/processes/wire.h"

namespace alpa::testing {

struct WireCheck {
  std::string claim;
  /// Throws std::runtime_error if `wire`, this process's, breaks the claim. No message is under way
  /// before and after.
  void (*run)(processes::Wire& wire);
};

const std::vector<WireCheck>& wire_checks();

/// Waits until `tickets`, all that are under way, are completed.
void wait_for(processes::Wire& wire, std::vector<int> tickets);

/// Waits for all processes to call this. Erases what is completed meanwhile from `under_way`.
void wait_for_all(processes::Wire& wire, std::vector<int>& under_way);

/// Leaves the launch.
void leave(processes::Wire& wire);

/// Sends `bytes` bytes that depend on the sender from each process to the next. The receiver
/// compares all of them.
void pass_around(processes::Wire& wire, std::int64_t bytes);

}  // namespace alpa::testing
