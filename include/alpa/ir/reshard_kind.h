#pragma once
/// Single steps that change the layout of a tensor on a device mesh.
#include <cstdint>
#include <string_view>

namespace alpa {

enum class ReshardKind : std::uint8_t {
  all_reduce,      ///< partial → replicated on `axes`
  reduce_scatter,  ///< partial → split `dim` (as its minor-most axis) on one axis
  /// split `dim` (= `from_dim`) → replicated on one axis (the minor-most of its dimension)
  all_gather,
  /// split `from_dim` (as its minor-most axis) → split `dim` (as its minor-most axis) on one axis
  all_to_all,
  slice,  ///< replicated → split `dim` on one axis, local
  /// replicated → partial on one axis: the identity of the combiner on all but coordinate 0, local
  to_partial,
};

/// "all_reduce", …, "slice", "to_partial"
std::string_view name_of(ReshardKind kind);

}  // namespace alpa
