#pragma once
/// Nodes that are alike (operator, attributes, operand types) share one rule: repeated layers cost nothing.
/// Plain data.
#include <vector>

#include "alpa/cost/cost_model.h"
#include "alpa/intra_op/strategy.h"
#include "alpa/ir/graph.h"

namespace alpa {

struct NodeClass {
  const OpDef* op = nullptr;
  const Attributes* attributes = nullptr;  ///< of the first node of the class; lives in the graph
  std::vector<TensorType> operands, results;
  Rule rule;
};

struct NodeClasses {
  std::vector<NodeClass> classes;
  std::vector<int> of_node;

  const NodeClass& of(int node) const { return classes[of_node[node]]; }
};

/// The class of every node of `graph`, which must outlive the result.
NodeClasses classify(const Graph& graph);

/// Seconds of one run on one device; batch inputs are copied into the device's memory, other inputs and
/// operators without work are free.
double node_seconds(const NodeClass& node, const Strategy& strategy, const DeviceMesh& mesh,
                    const CostModel& model);

}  // namespace alpa
