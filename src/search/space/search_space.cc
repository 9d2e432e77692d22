// The strategies that options allow, without dominated ones
#include "src/search/space/search_space.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "alpa/base/error.h"
#include "src/base/work.h"
#include "src/ir/op_def.h"
#include "src/search/space/restrictions.h"

namespace alpa::intra_op {
namespace {

using Kind = AxisRole::Kind;

bool splits(const Strategy& strategy, const BoundAxes& bound, const DeviceMesh& mesh) {
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (bound.axes >> axis & 1 &&
        strategy.axes[axis] != AxisRole{Kind::factor, static_cast<std::uint8_t>(bound.factor)})
      return false;
  }
  return true;
}

/// True if every axis that splits a factor may split it, and the axes of
/// tensor parallelism act as one.
bool splits_allowed(const Strategy& strategy, const Restriction& r, const DeviceMesh& mesh) {
  const std::uint32_t bound = r.bound_axes();
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisRole& role = strategy.axes[axis];
    if (r.tensor_axes >> axis & 1 && role != strategy.axes[std::countr_zero(r.tensor_axes)])
      return false;
    if (role.kind != Kind::factor || bound >> axis & 1) continue;
    if (r.whole_axes >> axis & 1) return false;
    if (r.tensor_axes >> axis & 1 && !(r.tensor_factors >> role.index & 1)) return false;
  }
  return true;
}

bool has_useful_partials(const Strategy& strategy, const Restriction& r, const DeviceMesh& mesh) {
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisRole& role = strategy.axes[axis];
    if (role.kind == Kind::linear && !(r.linear_axes[role.index] >> axis & 1)) return false;
  }
  return true;
}

void keep_most_split(std::vector<Strategy>& strategies, std::uint32_t axes,
                     const DeviceMesh& mesh) {
  int most = 0;
  for (const Strategy& s : strategies) most = std::max(most, devices_used(s, mesh, axes));
  std::erase_if(strategies, [&](const Strategy& s) { return devices_used(s, mesh, axes) != most; });
}

/// An odd batch under a compound dimension may admit no split at all; such a node does the
/// whole work on every device.
std::vector<Strategy> allowed_strategies(const Rule& rule, const Restriction& r,
                                         const DeviceMesh& mesh, bool fixed_sums) {
  std::vector<Strategy> strategies = all_strategies(rule, mesh);
  if (fixed_sums)
    std::erase_if(strategies, [&](const Strategy& s) { return !keeps_sum_order(rule, s, mesh); });
  std::erase_if(strategies, [&](const Strategy& s) { return !has_useful_partials(s, r, mesh); });
  if (!r.pinned.empty())
    std::erase_if(strategies, [&](const Strategy& s) {
      return to_string(result_spec(rule, s, mesh)) != r.pinned;
    });
  for (const BoundAxes& bound : r.bound)
    if (std::ranges::any_of(strategies, [&](const Strategy& s) { return splits(s, bound, mesh); }))
      std::erase_if(strategies, [&](const Strategy& s) { return !splits(s, bound, mesh); });
  std::erase_if(strategies, [&](const Strategy& s) { return !splits_allowed(s, r, mesh); });
  if (r.must_split_tensor) keep_most_split(strategies, r.tensor_axes, mesh);
  if (r.most_split_axes) keep_most_split(strategies, r.most_split_axes, mesh);
  return strategies;
}

std::vector<ShardingSpec> specs_of(const NodeClass& node, const Strategy& strategy,
                                   const DeviceMesh& mesh) {
  std::vector<ShardingSpec> specs;
  for (int j = 0; j < static_cast<int>(node.operands.size()); ++j)
    specs.push_back(operand_spec(node.rule, strategy, mesh, j));
  for (int i = 0; i < static_cast<int>(node.results.size()); ++i)
    specs.push_back(result_spec(node.rule, strategy, mesh, i));
  return specs;
}

/// The fastest of all strategies with equal specs, in the place of the first.
std::vector<PricedStrategy> priced_strategies(const NodeClass& node, const LoopShare& share,
                                              const Restriction& restriction,
                                              const DeviceMesh& mesh,
                                              const cost::CostModel& model) {
  std::vector<PricedStrategy> result;
  std::unordered_multimap<std::size_t, std::size_t> by_specs;
  for (const Strategy& strategy :
       allowed_strategies(node.rule, restriction, mesh, model.reshard.fixed_sums)) {
    PricedStrategy priced{strategy, node_seconds(node, share, strategy, mesh, model),
                          specs_of(node, strategy, mesh)};
    std::size_t hash = 0;
    for (const ShardingSpec& spec : priced.specs)
      hash = hash * 0x9e3779b97f4a7c15 + std::hash<ShardingSpec>()(spec);
    const auto [begin, end] = by_specs.equal_range(hash);
    const auto same = std::find_if(
        begin, end, [&](const auto& entry) { return result[entry.second].specs == priced.specs; });
    if (same == end) {
      by_specs.emplace(hash, result.size());
      result.push_back(std::move(priced));
    } else if (priced.seconds < result[same->second].seconds) {
      result[same->second] = std::move(priced);
    }
  }
  return result;
}

/// Builds choices by class and restriction.
class SpaceBuilder {
 public:
  SpaceBuilder(MeshFacts& facts, SearchSpace& space) : facts_(facts), space_(space) {}

  int choices_for(int node_class, int share, const Restriction& restriction) {
    const auto [place, added] = known_.try_emplace({node_class, share, restriction},
                                                   static_cast<int>(space_.choices.size()));
    if (added) space_.choices.push_back(build(node_class, share, restriction));
    return place->second;
  }

 private:
  NodeStrategies build(int node_class, int share, const Restriction& restriction) {
    const NodeClass& node = space_.graph->classes.classes[node_class];
    NodeStrategies choices;
    choices.node_class = node_class;
    for (const TensorType& type : node.operands)
      choices.operand_types.push_back(space_.layouts.number(type));
    for (const TensorType& type : node.results)
      choices.result_types.push_back(space_.layouts.number(type));
    choices.operand_specs.resize(node.operands.size());
    choices.result_specs.resize(node.results.size());
    const LoopShare& part = space_.graph->classes.shares[share];
    const auto [known, added] = facts_.strategies.try_emplace({node.known, part, restriction});
    if (added)
      known->second = priced_strategies(node, part, restriction, facts_.mesh, facts_.model);
    for (const PricedStrategy& priced : known->second) append(choices, priced);
    return choices;
  }

  void append(NodeStrategies& choices, const PricedStrategy& priced) {
    choices.strategies.push_back(priced.strategy);
    choices.seconds.push_back(priced.seconds);
    std::size_t next = 0;
    for (std::size_t j = 0; j < choices.operand_specs.size(); ++j)
      choices.operand_specs[j].push_back(
          space_.layouts.of(choices.operand_types[j]).number(priced.specs[next++]));
    for (std::size_t i = 0; i < choices.result_specs.size(); ++i)
      choices.result_specs[i].push_back(
          space_.layouts.of(choices.result_types[i]).number(priced.specs[next++]));
  }

  MeshFacts& facts_;
  SearchSpace& space_;
  std::map<std::tuple<int, int, Restriction>, int> known_;
};

}  // namespace

cost::CostModel allowed_model(cost::CostModel model, const AutoShardOptions& options) {
  model.reshard.collectives.allow_all_gather &= options.allowed.all_gather;
  model.reshard.collectives.allow_all_to_all &= options.allowed.all_to_all;
  model.reshard.fixed_sums |= options.allowed.fixed_sums;
  return model;
}

SearchSpace search_space(const Graph& graph, const AutoShardOptions& options, MeshFacts& facts) {
  return search_space(
      std::make_shared<GraphFacts>(graph, &facts.rules, nullptr, copies_state_once(options)),
      options, facts);
}

SearchSpace search_space(SharedFacts shared, const AutoShardOptions& options, MeshFacts& facts) {
  SearchSpace space;
  space.graph = std::move(shared);
  const Graph& graph = space.graph->graph;
  const NodeClasses& classes = space.graph->classes;
  const std::vector<Restriction> limits = restrictions(graph, classes, facts.mesh, options);
  SpaceBuilder builder(facts, space);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    space.of_node.push_back(
        builder.choices_for(classes.of_node[n], classes.share_of_node[n], limits[n]));
    require(!space.of(n).strategies.empty(),
            "method {}: no strategy of {} \"{}\" on a {} mesh leaves its result as {}",
            options.method, graph.nodes[n].op->name, graph.nodes[n].name, shape_text(facts.mesh),
            limits[n].pinned);
  }
  space.layouts.price(facts.prices, facts.mesh, facts.model);
  spend_nodes(graph.nodes.size());
  return space;
}

}  // namespace alpa::intra_op
