#pragma once
/// The planner's choices: per node, the strategies that the options allow, without dominated ones.
/// Nodes of one class with equal restrictions share their choices. Plain data, built once per mesh.
#include <vector>

#include "src/plan/facts/graph_facts.h"
#include "src/plan/facts/layouts.h"
#include "src/search/space/auto_shard_options.h"
#include "src/search/space/planning_cache.h"

namespace alpa::intra_op {

/// Strategies of a node; specs are numbered per type (`SearchSpace::layouts`).
struct NodeStrategies {
  int node_class = -1;
  std::vector<Strategy> strategies;
  std::vector<double> seconds;  ///< of one run
  std::vector<int> operand_types, result_types;
  std::vector<std::vector<int>> operand_specs;  ///< per operand and strategy, a spec
  std::vector<std::vector<int>> result_specs;   ///< per result and strategy, a spec
};

struct SearchSpace {
  SharedFacts graph;
  Layouts layouts;
  std::vector<NodeStrategies> choices;
  std::vector<int> of_node;  ///< choices of each node

  const NodeStrategies& of(int node) const { return choices[of_node[node]]; }

  /// Number of a value's type, its layouts, and the spec in which each strategy
  /// of the producer leaves it.
  int type_of(const ValueInfo& value) const { return of(value.producer).result_types[value.index]; }
  const TypeLayouts& layouts_of(const ValueInfo& value) const { return layouts.of(type_of(value)); }
  const std::vector<int>& specs_left(const ValueInfo& value) const {
    return of(value.producer).result_specs[value.index];
  }
};

/// `model` without the collectives that the options forbid.
cost::CostModel allowed_model(cost::CostModel model, const AutoShardOptions& options);

/// Throws Error if the options cannot be followed: the batch is too small, the mesh axis does not
/// exist. `facts` are those of the mesh and of the allowed model; missing ones are added. The rules
/// of `graph` are those of `facts`.
SearchSpace search_space(SharedFacts graph, const AutoShardOptions& options, MeshFacts& facts);
/// With new facts of the graph.
SearchSpace search_space(const Graph& graph, const AutoShardOptions& options, MeshFacts& facts);

}  // namespace alpa::intra_op
