#pragma once
/// Classes of nodes with equal operator, attributes and operand types, which share one rule, so
/// that repeated layers cost nothing. Plain data.
#include <unordered_map>
#include <vector>

#include "alpa/ir/graph.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/facts/fusion.h"
#include "src/plan/facts/strategy.h"

namespace alpa::intra_op {

struct NodeClass {
  const OpDef* op = nullptr;
  const Attributes* attributes = nullptr;  ///< of the first node of the class; lives in the graph
  std::vector<TensorType> operands, results;
  Rule rule;
  int known = -1;  ///< number of the rule
};

/// Rules kept across graphs, by operator, attributes and operand types. They keep their numbers.
class KnownRules {
 public:
  /// The number of a node's rule, which is added if it is missing.
  int number(const Graph& graph, const Node& node);
  const Rule& of(int number) const { return classes_[number].rule; }
  int size() const { return static_cast<int>(classes_.size()); }

 private:
  struct Known {
    const OpDef* op = nullptr;
    Attributes attributes;
    std::vector<TensorType> operands;
    Rule rule;
  };
  std::vector<Known> classes_;
  std::unordered_multimap<std::size_t, int> by_hash_;
};

struct NodeClasses {
  std::vector<NodeClass> classes;
  std::vector<int> of_node;
  std::vector<LoopShare> shares;  ///< of nodes in their loops, each once
  std::vector<int> share_of_node;

  const NodeClass& of(int node) const { return classes[of_node[node]]; }
  const LoopShare& share_of(int node) const { return shares[share_of_node[node]]; }
};

/// The class of every node of `graph`, which must outlive the result. Rules are those of `known`,
/// where missing ones are added.
NodeClasses classify(const Graph& graph, KnownRules* known = nullptr,
                     const std::vector<LoopShare>* shares = nullptr);

/// Seconds of one run on one device; batch inputs are copied into the device's memory, other inputs
/// and operators without work are free. A member of a loop pays for what it computes and for what
/// the loop reads and writes on its behalf, and for being cut off where its strategy leaves the
/// result in another spec than it wants an operand from inside the loop.
double node_seconds(const NodeClass& node, const LoopShare& share, const Strategy& strategy,
                    const DeviceMesh& mesh, const cost::CostModel& model);

/// Lower bound on the node's seconds over all strategies, on any mesh of up to `most_devices`.
cost::LeastSeconds least_node_seconds(const NodeClass& node, const LoopShare& share,
                                      int most_devices, const cost::CostModel& model);

/// Seconds of cutting a loop in two where a member leaves a value in spec `have` and another
/// wants it in `wanted`: it is written and read, and one loop more is launched. 0 if the
/// specs are equal. A value that several members read is written, and a loop launched, for
/// each that wants another spec.
double cut_seconds(const TensorType& type, const ShardingSpec& have, const ShardingSpec& wanted,
                   const DeviceMesh& mesh, const cost::CostModel& model);

/// Seconds of one run of all cuts between node `n` and the members of its loop that it reads.
double cuts_before(int n, const Graph& graph, const NodeClasses& classes,
                   const std::vector<Strategy>& strategies, const DeviceMesh& mesh,
                   const cost::CostModel& model);

}  // namespace alpa::intra_op
