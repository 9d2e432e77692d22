#pragma once
/// What the devices of a mesh do to the parts of a tensor: one vocabulary for plans,
/// prices, programs and transports.
#include <cstdint>
#include <string_view>
#include <vector>

#include "alpa/mesh/sharding_spec.h"
#pragma GCC visibility push(default)

namespace alpa {

/// What devices do to a tensor together.
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
  // Do not change a layout:
  broadcast,  ///< from one device to others
  send,       ///< to a device of another mesh
  receive,    ///< from a device of another mesh
  barrier,    ///< waits for all members
};

inline constexpr int kNumCollectives = 10;  ///< of `CollectiveKind`

/// The kinds that change the layout of a tensor on its mesh.
inline constexpr CollectiveKind kReshards[] = {
    CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
    CollectiveKind::all_to_all, CollectiveKind::slice,          CollectiveKind::to_partial};

/// Whether devices exchange data to change the layout: all_reduce, reduce_scatter,
/// all_gather or all_to_all.
constexpr bool exchanges(CollectiveKind kind) { return kind <= CollectiveKind::all_to_all; }

/// "all_reduce", …
std::string_view name_of(CollectiveKind kind);

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
