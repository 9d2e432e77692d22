#pragma once
/// What the devices of a mesh do to the parts of a tensor: one vocabulary for plans,
/// prices, programs and transports.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "alpa/mesh/sharding_spec.h"
#pragma GCC visibility push(default)

namespace alpa {

/// Collective operations of devices on a tensor. The row of a kind in `kCollectives` has its facts.
enum class CollectiveKind : std::uint8_t {
  // Exchange data and change the layout:
  all_reduce,      ///< partial → replicated on `axes`
  reduce_scatter,  ///< partial → split `dim` (as its minor-most axis) on one axis
  /// split `dim` (= `from_dim`) → replicated on one axis (the minor-most of its dimension)
  all_gather,
  /// split `from_dim` (as its minor-most axis) → split `dim` (as its minor-most axis) on one axis
  all_to_all,
  // Change the layout without exchanging data:
  slice,  ///< replicated → split `dim` on one axis
  /// replicated → partial on one axis: the identity of the combiner on all but coordinate 0
  to_partial,
};

/// The facts of a collective: search, prices, checks, programs and transports ask no others.
struct CollectiveDef {
  CollectiveKind kind;           ///< its row
  std::string_view name;         ///< in plans and programs
  AxisPlacement::Kind from, to;  ///< layout of the tensor on an axis, before and after
  bool several_axes = false;     ///< over any number of axes; else over one
  int passes = 0;                ///< a device sends passes·(n-1)/n of the bytes; 0: no exchange
  double tie_break_seconds = 0;  ///< by which Alpa's formulas order equal costs
};

inline constexpr int kNumCollectives = 6;  ///< of `CollectiveKind`

/// All collectives, in the order of `CollectiveKind`.
inline constexpr std::array<CollectiveDef, kNumCollectives> kCollectives = [] {
  using enum CollectiveKind;
  using enum AxisPlacement::Kind;
  return std::array<CollectiveDef, kNumCollectives>{{
      {all_reduce, "all_reduce", partial, replicated, true, 2, 0.01},
      {reduce_scatter, "reduce_scatter", partial, split, false, 1, 0.001},
      {all_gather, "all_gather", split, replicated, false, 1, 0.1},
      {all_to_all, "all_to_all", split, split, false, 1, 0.001},
      {slice, "slice", replicated, split},
      {to_partial, "to_partial", replicated, partial, false, 0, 0.001},
  }};
}();

/// The row of a kind.
constexpr const CollectiveDef& def_of(CollectiveKind kind) {
  return kCollectives[static_cast<std::size_t>(kind)];
}
/// "all_reduce", …
constexpr std::string_view name_of(CollectiveKind kind) { return def_of(kind).name; }
/// True if devices exchange data.
constexpr bool exchanges(CollectiveKind kind) { return def_of(kind).passes > 0; }
/// True if partial results are combined: the kind has a combiner.
constexpr bool reduces(CollectiveKind kind) {
  return def_of(kind).from == AxisPlacement::Kind::partial;
}
/// True if the result is split.
constexpr bool splits(CollectiveKind kind) { return def_of(kind).to == AxisPlacement::Kind::split; }
/// True if the operand is split.
constexpr bool joins(CollectiveKind kind) {
  return def_of(kind).from == AxisPlacement::Kind::split;
}
/// True if a split operand becomes whole: `dim` is that of the operand, and bytes are the result's.
constexpr bool gathers(CollectiveKind kind) { return joins(kind) && !splits(kind); }
/// True if every pair of devices exchanges a part of its own, and `from_dim` differs from `dim`.
constexpr bool pairwise(CollectiveKind kind) { return joins(kind) && splits(kind); }

/// One step of a resharding.
struct ReshardStep {
  CollectiveKind kind;    ///< what is done
  std::vector<int> axes;  ///< mesh axes, ascending; several only for all_reduce
  int dim = -1;           ///< see CollectiveKind
  int from_dim = -1;      ///< see CollectiveKind
  ShardingSpec to;        ///< spec after this step
  double seconds = 0;     ///< predicted

  bool operator==(const ReshardStep&) const = default;
};

/// The steps from one layout to another.
struct ReshardPath {
  std::vector<ReshardStep> steps;  ///< in order; empty if nothing is to do
  double seconds = 0;              ///< predicted
};

/// Number of calls, and bytes a device sends; for collectives, by the ring
/// formulas of src/plan/cost/collective.h.
struct Traffic {
  std::int64_t count = 0;  ///< calls
  double bytes = 0;        ///< sent by a device
  bool operator==(const Traffic&) const = default;
};

}  // namespace alpa
#pragma GCC visibility pop
