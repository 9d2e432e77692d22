#pragma once
/// What a method's options forbid a node. Plain data; nodes of one class with equal restrictions share
/// their choices.
#include <compare>
#include <cstdint>
#include <vector>

#include "alpa/intra_op/auto_shard.h"
#include "node_classes.h"

namespace alpa {

struct Restriction {
  int batch_factor = -1;
  std::uint32_t batch_axes = 0;  ///< bits of mesh axes that must split the batch factor
  bool no_splits = false;        ///< no other axis may split anything
  bool most_split = false;       ///< of all strategies, those that split over the most devices
  std::vector<std::uint32_t>
      linear_axes;  ///< per linear set, bits of mesh axes on which partial operands are worth considering

  auto operator<=>(const Restriction&) const = default;
};

/// Per node. Throws Error if the options cannot be followed.
std::vector<Restriction> restrictions(const Graph& graph, const NodeClasses& classes,
                                      const DeviceMesh& mesh, const AutoShardOptions& options);

}  // namespace alpa
