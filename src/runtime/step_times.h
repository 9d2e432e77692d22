#pragma once
/// Times of the instructions of a step.
#include <chrono>
#include <cstdint>
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
  /// Instructions on the device's thread or compute stream, of all its lists.
  std::vector<TimedInstruction> own;
  /// Started collectives on its communication thread or stream. On CUDA also messages and
  /// overlapped updates, which have streams of their own.
  std::vector<TimedInstruction> beside;
  /// Bytes of a CUDA card, before the program's kernels were loaded and behind that.
  std::int64_t free_before = 0, free_behind = 0;
};

/// Notes when the instructions of one thread ran. Allocates nothing during a step.
class TimeRecorder {
 public:
  /// Room for the times of `most` instructions in a step; 0: records nothing.
  void reserve(std::size_t most) { times_.reserve(most); }
  void begin_step() { times_.clear(); }

  /// An instruction begins; `end` ends it.
  void begin(const lower::Instruction* instruction, int micro_batch) {
    if (times_.capacity() == 0) return;
    const std::int64_t at = now();
    times_.push_back({instruction, micro_batch, at, at});
  }
  void end() {
    if (!times_.empty()) times_.back().end = now();
  }

  const std::vector<TimedInstruction>& times() const { return times_; }

 private:
  static std::int64_t now() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::vector<TimedInstruction> times_;
};

}  // namespace alpa::runtime
