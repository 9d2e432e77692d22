#pragma once
/// Counts of a model, from its graph.
#include <alpa/alpa.h>

#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa::testing {

/// Elements of all parameters.
inline std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state && input.of.empty())
      count += graph.type(input.value).elements();
  return count;
}

/// FLOPs of products, convolutions and attention in a region, for one micro-batch.
inline double product_flops(const Graph& graph, Region region) {
  double sum = 0;
  for (const Node& node : graph.nodes)
    if (node.region == region && node.op->work == Work::heavy) sum += flops(rule_of(graph, node));
  return sum;
}

}  // namespace alpa::testing
