// src/search/stages/equal_stages.cc — compares stages, and moves plans between equal ones
#include "src/search/stages/equal_stages.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

namespace alpa {
namespace {

/// Layers of a graph by their rank in it: inputs of the step belong to the first layer of all.
class LayerRanks {
 public:
  explicit LayerRanks(const Graph& graph) {
    for (const Node& node : graph.nodes) layers_.insert(node.layer), remats_.insert(node.remat);
  }
  std::array<std::ptrdiff_t, 2> of(const Node& node) const {
    return {std::distance(layers_.begin(), layers_.find(node.layer)),
            std::distance(remats_.begin(), remats_.find(node.remat))};
  }

 private:
  std::set<int> layers_, remats_;  ///< few; -1 among them
};

/// Beside what `layer_hash` covers: ids of values, which plans name, and layers.
bool equal_nodes(const Graph& a, const Graph& b) {
  const LayerRanks ranks_a(a), ranks_b(b);
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
                    [&](const Node& x, const Node& y) {
                      return x.op == y.op && x.operands == y.operands && x.results == y.results &&
                             x.again == y.again && ranks_a.of(x) == ranks_b.of(y);
                    });
}

int batch_dim(const StageToPlan& stage, const Input& input) {
  const auto found = stage.batch_dims.find(input.name);
  return found == stage.batch_dims.end() ? -1 : found->second;
}

bool equal_inputs(const StageToPlan& a, const StageToPlan& b) {
  return std::equal(a.graph.inputs.begin(), a.graph.inputs.end(), b.graph.inputs.begin(),
                    b.graph.inputs.end(), [&](const Input& x, const Input& y) {
                      return x.kind == y.kind && x.value == y.value &&
                             (x.kind != InputKind::boundary || batch_dim(a, x) == batch_dim(b, y));
                    });
}

bool equal_meshes(const std::vector<DeviceMesh>& a, const std::vector<DeviceMesh>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const DeviceMesh& x, const DeviceMesh& y) { return x.axes() == y.axes(); });
}

bool equal_limits(const StageLimit& a, const StageLimit& b) {
  const bool none = a.bytes == kNoByteLimit;
  return a.bytes == b.bytes && (none || a.in_flight == b.in_flight);
}

}  // namespace

bool are_equal(const StageToPlan& a, const StageToPlan& b) {
  return a.hash == b.hash && equal_limits(a.limit, b.limit) && equal_meshes(a.meshes, b.meshes) &&
         equal_nodes(a.graph, b.graph) && equal_inputs(a, b);
}

std::optional<ShardingPlan> EqualStages::find(const StageToPlan& stage) const {
  for (const Planned& planned : planned_) {
    if (!are_equal(planned.stage, stage)) continue;
    const auto mesh =
        std::find_if(stage.meshes.begin(), stage.meshes.end(),
                     [&](const DeviceMesh& m) { return m.axes() == planned.plan.mesh.axes(); });
    if (mesh == stage.meshes.end()) return std::nullopt;
    ShardingPlan plan = planned.plan;
    plan.mesh = *mesh;
    return plan;
  }
  return std::nullopt;
}

void EqualStages::add(const StageToPlan& stage, const ShardingPlan& plan) {
  planned_.push_back({stage, plan});
}

}  // namespace alpa
