// src/spmd/fuse_elementwise.cc — elementwise nodes of one iteration space into one node
#include <algorithm>

#include "alpa/intra_op/fusion.h"
#include "alpa/ops/all_ops.h"
#include "fuse_group.h"
#include "rewrite.h"

namespace alpa {
namespace {

/// Nodes without readers (constants and broadcasts that became part of others) are dropped, last first.
void drop_unread(const SpmdProgram& program, std::vector<Node>& nodes) {
  std::vector<bool> read(program.graph.values.size(), false);
  for (const Update& update : program.graph.updates) read[update.value] = true;
  for (const Metric& metric : program.graph.metrics) read[metric.value] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    Node& node = nodes[i];
    const bool absorbed =
        (node.op == &ops::constant || node.op == &ops::broadcast) && !read[node.results[0]];
    if (absorbed)
      node.op = nullptr;
    else
      for (int value : node.operands) read[value] = true;
  }
  nodes.erase(
      std::remove_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == nullptr; }),
      nodes.end());
}

}  // namespace

SpmdProgram fuse_elementwise(const SpmdProgram& program) {
  std::vector<Node> nodes = program.graph.nodes;
  const std::vector<std::vector<int>> readers = consumers(program.graph);
  for (const std::vector<int>& group : fusion_groups(program.graph, &program.specs)) {
    std::optional<Node> fused = fuse_group(program, readers, group);
    if (!fused) continue;
    for (int member : group) nodes[member].op = nullptr;
    nodes[group.back()] = std::move(*fused);
  }
  nodes.erase(
      std::remove_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == nullptr; }),
      nodes.end());
  drop_unread(program, nodes);
  return with_nodes(program, std::move(nodes));
}

}  // namespace alpa
