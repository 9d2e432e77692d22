// src/spmd/once_before.cc — finds what runs once per step, before its micro-batches
#include <algorithm>

#include "src/ir/input.h"
#include "src/ir/lasting.h"
#include "src/ir/op_def.h"
#include "src/spmd/program.h"

namespace alpa::spmd {
namespace {

/// Adds to `once` the reshards that belong to its transfers. Any other reshard of the plan stays
/// where it is: the plan counts on its result for one micro-batch alone.
void add_reshards_behind(const Graph& graph, std::vector<bool>& once) {
  std::vector<std::int64_t> left(graph.nodes.size(), 0);  // of reshards behind
  for (std::size_t n = 0; n < once.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (is_transfer(node) && once[n] && node.attributes.contains("reshards"))
      left[n] = node.attributes.integer("reshards");
    if (!node.op->reshard || node.operands.empty()) continue;
    std::int64_t least = kMaxGraphNodes;
    for (int value : node.operands) least = std::min(least, left[graph.values[value].producer]);
    if (least == 0) continue;
    once[n] = true;
    left[n] = least - 1;
  }
}

}  // namespace

std::vector<bool> once_before(const SpmdProgram& program) {
  const Graph& graph = program.graph;
  std::vector<bool> once(graph.nodes.size());
  for (std::size_t n = 0; n < once.size(); ++n) once[n] = graph.nodes[n].attributes.contains(kOnce);
  if (program.meshes.size() == 1) return once;
  const std::vector<bool> lasting = lasting_values(graph);
  const auto is_input = [&](std::size_t n) { return graph.nodes[n].op == &ops::input; };
  for (std::size_t n = once.size(); n-- > 0;) {
    if (is_input(n) || !lasting[graph.nodes[n].results[0]]) continue;
    if (is_transfer(graph.nodes[n])) once[n] = true;
    for (int value : graph.nodes[n].operands)
      if (const int producer = graph.values[value].producer; once[n] && !is_input(producer))
        once[producer] = true;
  }
  add_reshards_behind(graph, once);
  return once;
}

}  // namespace alpa::spmd
