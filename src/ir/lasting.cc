// src/ir/lasting.cc — finds what is the same in all micro-batches of a step
#include "src/ir/lasting.h"

#include <algorithm>

#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa {
namespace {

bool lasts(const Graph& graph, const Input& input) {
  switch (input.kind) {
    case InputKind::state:
    case InputKind::shared:
    case InputKind::scalar: return true;
    case InputKind::boundary:
      return graph.producer(input.value).attributes.contains(kLastingAttribute);
    case InputKind::batch:
    case InputKind::accumulator: return false;
  }
  return false;
}

}  // namespace

std::vector<bool> lasting_values(const Graph& graph) {
  std::vector<bool> lasting(graph.values.size());
  if (graph.num_micro_batches == 1) return lasting;
  for (const Node& node : graph.nodes) {
    const Input* input = node.op == &ops::input ? find_input(graph, node.results[0]) : nullptr;
    const bool same = input ? lasts(graph, *input)
                            : node.region != Region::apply &&
                                  !node.attributes.contains(kStreamAttribute) &&
                                  std::all_of(node.operands.begin(), node.operands.end(),
                                              [&](int value) { return lasting[value]; });
    for (int value : node.results) lasting[value] = same;
  }
  return lasting;
}

std::vector<bool> held_values(const Graph& graph) {
  std::vector<bool> held(graph.values.size());
  if (graph.num_micro_batches == 1) return held;
  for (const Input& input : graph.inputs) {
    const Attributes& attributes = graph.producer(input.value).attributes;
    held[input.value] =
        input.kind == InputKind::state ||
        (input.kind == InputKind::boundary && attributes.contains(kLastingAttribute) &&
         attributes.integer(kLastingAttribute) == kHeldElsewhere);
  }
  return held;
}

}  // namespace alpa
