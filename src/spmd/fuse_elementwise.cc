// src/spmd/fuse_elementwise.cc — fuses elementwise nodes of one iteration space into one node
#include <algorithm>

#include "alpa/intra_op/fusion.h"
#include "alpa/ops/all_ops.h"
#include "fuse_group.h"
#include "rewrite.h"

namespace alpa {
SpmdProgram fuse_elementwise(const SpmdProgram& program) {
  std::vector<Node> nodes = program.graph.nodes;
  const std::vector<std::vector<int>> readers = consumers(program.graph);
  for (const std::vector<int>& group : fusion_groups(program.graph, &program.specs)) {
    std::optional<Node> fused = fuse_group(program, readers, group);
    if (!fused) continue;
    for (int member : group) nodes[member].op = nullptr;
    nodes[group.back()] = std::move(*fused);
  }
  return with_nodes(program, std::move(nodes));
}

}  // namespace alpa
