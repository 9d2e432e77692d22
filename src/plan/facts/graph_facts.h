#pragma once
/// Facts of a graph that planning, pricing and explaining read: computed once per call, and passed.
#include <memory>
#include <optional>

#include "src/plan/facts/live_ranges.h"

namespace alpa::intra_op {

/// When nodes run and values live, as live_ranges.h says.
struct Lifetimes {
  std::vector<int> points;         ///< per node
  std::vector<LivePoints> values;  ///< per value, up to the last of all its uses
};

/// Thread rule: one thread at a time.
class GraphFacts {
 public:
  /// `graph` must outlive the facts; `copies_once` as for uses_of_values, other arguments as for
  /// `classify`.
  explicit GraphFacts(const Graph& graph, KnownRules* known = nullptr,
                      const std::vector<LoopShare>* shares = nullptr, bool copies_once = false);

  const Graph& graph;
  const NodeClasses classes;
  const std::vector<std::vector<Use>> uses;  ///< per value, by ascending id and operand
  const std::vector<int> accumulators;       ///< per value, as accumulators_of_values gives them
  const std::vector<bool> held;              ///< per value, as `held_values` gives them

  /// Computed at the first call: only budgets need it.
  const Lifetimes& lifetimes() const;

 private:
  mutable std::optional<Lifetimes> lifetimes_;
};

/// Facts shared by the search spaces of one graph.
using SharedFacts = std::shared_ptr<const GraphFacts>;

/// The spec that a use needs, according to the plan's strategies and outputs.
ShardingSpec wanted_spec(const GraphFacts& facts, const ShardingPlan& plan, const Use& use);

}  // namespace alpa::intra_op
