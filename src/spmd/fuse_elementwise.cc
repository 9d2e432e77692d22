// src/spmd/fuse_elementwise.cc — fuses elementwise nodes of one iteration space into one node
#include <algorithm>

#include "fuse_group.h"
#include "rewrite.h"
#include "src/intra_op/facts/fusion.h"
#include "src/ops/all_ops.h"

namespace alpa::spmd {
SpmdProgram fuse_elementwise(const SpmdProgram& program) {
  std::vector<Node> nodes = program.graph.nodes;
  const std::vector<std::vector<int>> readers = consumers(program.graph);
  std::vector<bool> taken(program.graph.values.size());
  for (const Update& update : program.graph.updates) taken[update.value] = true;
  for (const Metric& metric : program.graph.metrics) taken[metric.value] = true;
  for (const Output& output : program.graph.outputs) taken[output.value] = true;
  for (const std::vector<int>& group : intra_op::fusion_groups(program.graph, &program.specs)) {
    std::optional<Node> fused = fuse_group(program, readers, taken, group);
    if (!fused) continue;
    for (int member : group) nodes[member].op = nullptr;
    nodes[group.back()] = std::move(*fused);
  }
  return with_nodes(program, std::move(nodes));
}

}  // namespace alpa::spmd
