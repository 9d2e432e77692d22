#pragma once
/// The orders in which the stages of a pipeline run micro-batches.
#include <cstdint>
#include <string_view>
#pragma GCC visibility push(default)

namespace alpa {

/// In which order stages run micro-batches.
enum class ScheduleKind : std::uint8_t {
  /// all forward runs, then all backward runs (arXiv 1811.06965)
  gpipe,
  /// stage s of n runs at most n - s micro-batches ahead (PipeDream-flush, arXiv 2006.09503)
  one_f_one_b,
  /// 1F1B at most 2(n - s) - 1 ahead, so that transfers overlap (eager 1F1B, arXiv 2211.05322)
  one_f_one_b_overlap,
  /// 1F1B of several stages on each part of the devices (Megatron-LM, arXiv 2104.04473)
  interleaved_one_f_one_b,
  /// gradients of weights fill the bubbles of 1F1B (ZB-H1, arXiv 2401.10241)
  zero_bubble,
  /// forward runs alone, for steps without gradients
  inference,
};

/// "gpipe", "1f1b", "1f1b_overlap", "interleaved_1f1b", "zero_bubble" or "inference".
std::string_view name_of(ScheduleKind kind);

/// The schedule of this name. Throws Error that lists the known names.
ScheduleKind parse_schedule(std::string_view name);

}  // namespace alpa
#pragma GCC visibility pop
