// The price of changing one node's strategy
#include "src/base/infinity.h"
#include "src/report/plan_summary.h"

#include <algorithm>
#include <set>

namespace alpa::intra_op {
namespace {

class Repricing {
 public:
  explicit Repricing(const PricedPlan& priced)
      : plan_(priced.plan),
        facts_(priced.facts),
        model_(priced.model),
        prices_(plan_.mesh, model_.reshard) {}

  std::vector<Alternative> all(int n) {
    const Strategy chosen = plan_.strategies[n];
    const double now = seconds_around(n);
    std::vector<Alternative> others;
    for (const Strategy& strategy : all_strategies(facts_.classes.of(n).rule, plan_.mesh)) {
      if (strategy == chosen) continue;
      plan_.strategies[n] = strategy;
      others.push_back({strategy, seconds_around(n) - now});
    }
    plan_.strategies[n] = chosen;
    std::erase_if(others,
                  [](const Alternative& other) { return other.extra_seconds == kInfinity; });
    return others;
  }

  std::optional<Alternative> next_best(int n) {
    const std::vector<Alternative> others = all(n);
    const auto best = std::ranges::min_element(others, {}, &Alternative::extra_seconds);
    return best == others.end() ? std::nullopt : std::optional(*best);
  }

 private:
  /// Seconds of the node and of resharding the values it reads and leaves, and that update it.
  double seconds_around(int n) {
    const Node& node = facts_.graph.nodes[n];
    double seconds =
        runs_per_step(facts_.graph, node) *
        (node_seconds(facts_.classes.of(n), facts_.classes.share_of(n), plan_.strategies[n],
                      plan_.mesh, model_) +
         cuts_before(n, facts_.graph, facts_.classes, plan_.strategies, plan_.mesh, model_));
    for (int value : node.results)
      for (const Use& use : facts_.uses[value])
        if (use.operand >= 0)
          seconds += use.runs * cuts_before(use.id.index, facts_.graph, facts_.classes,
                                            plan_.strategies, plan_.mesh, model_);
    for (int value : std::set<int>(node.operands.begin(), node.operands.end()))
      seconds += reshard_seconds_of(value);
    for (int value : node.results) seconds += reshard_seconds_of(value);
    for (const Update& update : facts_.graph.updates)  // new content is left as the input has it
      if (update.input == node.results[0]) seconds += reshard_seconds_of(update.value);
    return seconds;
  }

  /// Seconds to reshard the value, counted once per phase and spec wanted.
  double reshard_seconds_of(int value) {
    const ValueInfo& info = facts_.graph.values[value];
    std::vector<std::pair<int, ShardingSpec>> paid;
    double seconds = 0;
    for (const Use& use : facts_.uses[value]) {
      const std::pair<int, ShardingSpec> target(use.phase, wanted_spec(facts_, plan_, use));
      const ShardingSpec from = produced_spec(use.source);
      if (target.second == from || std::find(paid.begin(), paid.end(), target) != paid.end())
        continue;
      paid.push_back(target);
      seconds += use.copy_runs * prices_.seconds(info.type, {from}, {target.second}).front();
    }
    return seconds;
  }

  ShardingSpec produced_spec(int value) const {
    const ValueInfo& info = facts_.graph.values[value];
    return result_spec(facts_.classes.of(info.producer).rule, plan_.strategies[info.producer],
                       plan_.mesh, info.index);
  }

  ShardingPlan plan_;  ///< with the strategies that are tried
  const GraphFacts& facts_;
  const cost::CostModel& model_;
  cost::ReshardPrices prices_;
};

}  // namespace

std::vector<Alternative> alternatives(int node, const PricedPlan& priced) {
  return Repricing(priced).all(node);
}

std::vector<std::optional<Alternative>> next_best(const std::vector<int>& nodes,
                                                  const PricedPlan& priced) {
  Repricing repricing(priced);
  std::vector<std::optional<Alternative>> result;
  for (int n : nodes) result.push_back(repricing.next_best(n));
  return result;
}

}  // namespace alpa::intra_op
