#pragma once
/// The progress line of a training run: on a terminal one live line, otherwise
/// plain lines at intervals.
#include <chrono>
#include <cstdint>
#include <string>

namespace models {

class Progress {
 public:
  /// `first`: steps that an earlier run did; `steps`: with them. `item`: what is counted, "samples"
  /// or "tokens"; `flops_per_step`: floating-point operations of one step; `planned_bytes`: peak of
  /// one device; `peak_rate`: FLOP/s that the devices reach with matrix products alone, or 0 if
  /// nobody knows.
  Progress(std::int64_t first, std::int64_t steps, std::int64_t items_per_step, std::string item,
           double flops_per_step, std::int64_t planned_bytes, double peak_rate);

  /// Call after every step; `loss` as the step reported it.
  void step(double loss);

 private:
  using Clock = std::chrono::steady_clock;
  bool due(Clock::time_point now) const;

  std::int64_t first_, steps_, items_per_step_;
  std::string item_;
  double flops_per_step_;
  std::int64_t planned_bytes_;
  double peak_rate_;
  std::int64_t done_;
  bool live_;
  Clock::time_point start_, last_line_;
};

}  // namespace models
