#pragma once
/// The strategies that the options of a method, or a template, forbid a node. Plain data; nodes of
/// one class with equal restrictions share their choices.
#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/facts/node_classes.h"
#include "src/search/space/auto_shard_options.h"

namespace alpa::intra_op {

/// Mesh axes that must split a factor, if any strategy of the node does.
struct BoundAxes {
  int factor = -1;
  std::uint32_t axes = 0;

  auto operator<=>(const BoundAxes&) const = default;
};

struct Restriction {
  std::vector<BoundAxes> bound = {};  ///< to the batch, experts and tokens
  /// mesh axes that may split no factor, except those that they are bound to
  std::uint32_t whole_axes = 0;
  /// of all strategies, those that split over the most devices of these
  std::uint32_t most_split_axes = 0;
  std::uint32_t tensor_axes = 0;  ///< mesh axes that do all the same, and split these factors only:
  std::uint64_t tensor_factors = 0;
  bool must_split_tensor = false;  ///< they split one of them wherever they can
  std::string pinned = {};         ///< spec of the first result; empty: any
  /// per linear set, mesh axes on which partial operands are worth considering
  std::vector<std::uint32_t> linear_axes = {};

  std::uint32_t bound_axes() const {
    std::uint32_t axes = 0;
    for (const BoundAxes& each : bound) axes |= each.axes;
    return axes;
  }

  auto operator<=>(const Restriction&) const = default;
};

/// Per node. Throws Error if the options cannot be followed.
std::vector<Restriction> restrictions(const Graph& graph, const NodeClasses& classes,
                                      const DeviceMesh& mesh, const AutoShardOptions& options);

}  // namespace alpa::intra_op
