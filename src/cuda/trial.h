#pragma once
/// Times alternative ways of computing the same result against each other on the current device.
/// Thread rule: a trial belongs to one host thread.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alpa/base/dtype.h"
#include "handles.h"
#include "kernels/cuda/launch.h"
#include "src/base/timing.h"

namespace alpa::cuda {

/// Seconds that measuring of one node may take, from its Stopwatch's start. What is under way then
/// ends, so that it may be twice as long.
inline constexpr double kNodeSeconds = 1.5;

/// Queues the work; throws Error if it is refused.
using Way = std::function<void(Stream)>;

/// Free bytes of the current device's memory.
std::int64_t free_bytes();

/// Memory of its own for the work, and the clock.
class Trial {
 public:
  /// nullopt if the device has less than `bytes` and a reserve, for kernels that are yet to load.
  static std::optional<Trial> of(std::int64_t bytes);

  /// Memory with random numbers of [-1, 1), for integers with random bytes: work on zeros draws
  /// less power and is faster.
  std::byte* random(DType dtype, std::int64_t elements);
  /// Memory with undefined content.
  std::byte* scratch(std::int64_t bytes);

  struct Outcome {
    int fastest = -1;     ///< -1: all were refused
    std::string refusal;  ///< of the first that was refused
  };
  /// Compares medians of rounds in which all ways run, so that changes of the card's speed hit all
  /// alike. Refused ways take no part. Of the others the first wins unless another is more than 1 %
  /// faster.
  /// No further way is tried, and no further round begun, once `node` has run for kNodeSeconds.
  /// The first way that runs is always tried. Throws Error if the device fails.
  Outcome run(const std::vector<Way>& ways, const Stopwatch& node = {}) const;
  /// True if `second` is to replace `first`: it is faster, or `first` is refused. A line on stderr
  /// tells of a refused form. Throws Error if both are refused.
  bool prefers(const Way& second, const Way& first) const;

 private:
  Trial();
  std::string refusal_of(const Way& way) const;
  double seconds(const Way& way, int runs) const;

  StreamHandle stream_;
  EventHandle start_, stop_;
  DeviceBlock step_;
  std::vector<DeviceBlock> memory_;  ///< freed first, which waits for what is queued
};

}  // namespace alpa::cuda
