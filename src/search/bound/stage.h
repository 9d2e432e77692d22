#pragma once
/// How a model is cut into pipeline stages: what the search, uniform and manual stages all return.
#include <vector>

#include "src/search/bound/submesh.h"

namespace alpa::inter_op {

struct Stage {
  int first_layer = 0, last_layer = 0;  ///< both included
  Submesh submesh;
  /// Which logical shape: its index among the configurations that were offered for the submesh, or
  /// in the given list of shapes; -1: not chosen.
  int configuration = -1;
  bool operator==(const Stage&) const = default;
};

/// Stages in the order of layers: together all layers, on submeshes that tile the cluster
/// (`place` says where).
struct StagePartition {
  std::vector<Stage> stages;
  bool operator==(const StagePartition&) const = default;
};

/// "[layers 0-3 on 1x4, configuration 2] [layers 4-7 on 1x4, configuration 4]".
std::string to_string(const StagePartition& partition);

/// Submeshes of the stages, in order.
std::vector<Submesh> submeshes_of(const StagePartition& partition);

/// Stages of `a` and `b` have equal layers and submeshes, whatever their configurations are.
bool have_equal_cuts(const StagePartition& a, const StagePartition& b);

/// Per stage, the host where it is placed in order (`place_in_order`); -1: on several.
std::vector<int> hosts_of(const Submesh& cluster, const StagePartition& partition);

}  // namespace alpa::inter_op

template <>
struct fmt::formatter<alpa::inter_op::StagePartition>
    : alpa::TextFormatter<alpa::inter_op::StagePartition> {};
