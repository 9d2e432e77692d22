#pragma once
/// When the instructions of a step ran.
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::runtime {

/// One run of an instruction; nanoseconds on a clock that all devices share.
struct TimedInstruction {
  const lower::Instruction* instruction = nullptr;
  int micro_batch = 0;
  std::int64_t begin = 0, end = 0;
};

/// The instructions that a device ran in a step, in order.
struct DeviceTimes {
  /// On the device's thread or compute stream: all of its lists.
  std::vector<TimedInstruction> own;
  /// Started collectives on its communication thread or stream. On CUDA also messages and
  /// overlapped updates, which have streams of their own.
  std::vector<TimedInstruction> beside;
};

/// Notes when the instructions of one thread ran. Allocates nothing during a step.
class TimeRecorder {
 public:
  /// At most so many instructions in a step; 0: notes nothing.
  void reserve(std::size_t most) { times_.reserve(most); }
  void begin_step() { times_.clear(); }

  template <class Run>
  void timed(const lower::Instruction* instruction, int micro_batch, Run&& run) {
    if (times_.capacity() == 0) return std::forward<Run>(run)();
    const std::int64_t begin = now();
    std::forward<Run>(run)();
    times_.push_back({instruction, micro_batch, begin, now()});
  }

  const std::vector<TimedInstruction>& times() const { return times_; }

 private:
  static std::int64_t now() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::vector<TimedInstruction> times_;
};

}  // namespace alpa::runtime
