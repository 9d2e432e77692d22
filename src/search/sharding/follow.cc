// Plans a step along the plan of another step, node by node
#include "src/search/sharding/follow.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/ir/input.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/graph_facts.h"
#include "src/search/program/assemble_plan.h"

namespace alpa::intra_op {
namespace {

/// Per node of `graph`, the node of `leader` that computes the same; -1: none. Shapes may
/// differ. Among nodes of one operator and name, that with the most operands in common
/// counts, and the first of these.
class Counterparts {
 public:
  Counterparts(const Graph& leader, const Graph& graph) : leader_(leader), graph_(graph) {
    for (int n = 0; n < static_cast<int>(leader.nodes.size()); ++n)
      known_[key_of(leader.nodes[n])].push_back(n);
    values_.assign(graph.values.size(), -1);
  }

  std::vector<int> run() {
    std::vector<int> found;
    for (const Node& node : graph_.nodes) {
      found.push_back(take_best(node));
      for (std::size_t i = 0; found.back() >= 0 && i < node.results.size(); ++i)
        values_[node.results[i]] = leader_.nodes[found.back()].results[i];
    }
    return found;
  }

 private:
  using Key = std::tuple<const OpDef*, Region, std::string>;

  /// Inputs belong to all regions.
  static Key key_of(const Node& node) {
    return {node.op, node.op == &ops::input ? Region::forward : node.region, node.name};
  }

  /// Every node of the leader is the counterpart of one node at most.
  int take_best(const Node& node) {
    std::vector<int>& candidates = known_[key_of(node)];
    auto best = candidates.end();
    int most = -1;
    const int all = static_cast<int>(node.operands.size());
    for (auto c = candidates.begin(); c != candidates.end() && most < all; ++c) {
      const int common =
          is_alike(node, leader_.nodes[*c]) ? common_operands(node, leader_.nodes[*c]) : -1;
      if (common <= most) continue;
      most = common;
      best = c;
    }
    if (best == candidates.end()) return -1;
    const int found = *best;
    candidates.erase(best);
    return found;
  }

  bool is_alike(const Node& node, const Node& other) const {
    if (node.op == &ops::input && node.attributes.string("kind") != other.attributes.string("kind"))
      return false;
    const auto same_rank = [&](int a, int b) {
      return graph_.type(a).dtype == leader_.type(b).dtype &&
             graph_.type(a).rank() == leader_.type(b).rank();
    };
    return std::equal(node.operands.begin(), node.operands.end(), other.operands.begin(),
                      other.operands.end(), same_rank) &&
           std::equal(node.results.begin(), node.results.end(), other.results.begin(),
                      other.results.end(), same_rank);
  }

  int common_operands(const Node& node, const Node& other) const {
    int common = 0;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      common += values_[node.operands[i]] == other.operands[i];
    return common;
  }

  const Graph &leader_, &graph_;
  std::map<Key, std::vector<int>> known_;  ///< nodes of the leader that have no counterpart yet
  std::vector<int> values_;                ///< per value, the leader's; -1: none
};

/// Throws Error unless `leader` has the state, of the same type. A state that the step itself fills
/// may be its own.
void require_state(const Graph& leader, const Graph& graph, const Input& input) {
  const auto found =
      std::find_if(leader.inputs.begin(), leader.inputs.end(), [&](const Input& other) {
        return other.kind == InputKind::state && other.name == input.name;
      });
  if (found == leader.inputs.end() && is_unset(graph, input)) return;
  require(
      found != leader.inputs.end(),
      "a step that shares the state of another reads \"{}\", which that one lacks; build both from "
      "the same layers, or call parallelize for each",
      input.name);
  require(
      leader.type(found->value) == graph.type(input.value),
      "a step that shares the state of another reads \"{}\" as {}, but there it is {}; build both "
      "from "
      "the same layers, or call parallelize for each",
      input.name, to_string(graph.type(input.value)), to_string(leader.type(found->value)));
}

/// The factor of `rule` in the place that factor `led` of `leader`, a rule of the same operator,
/// has in its tensors; -1: none. A dimension of extent 1 may have no factor, so numbers may differ.
int counterpart_of(int led, const Rule& leader, const Rule& rule) {
  for (const auto tensors : {&Rule::results, &Rule::operands}) {
    const std::vector<DimFactors>&from = leader.*tensors, &to = rule.*tensors;
    for (std::size_t i = 0; i < from.size(); ++i)
      for (std::size_t d = 0; d < from[i].size(); ++d) {
        const auto place = std::find(from[i][d].begin(), from[i][d].end(), led);
        if (place != from[i][d].end() && to[i][d].size() == from[i][d].size())
          return to[i][d][place - from[i][d].begin()];
      }
  }
  return -1;
}

/// Chooses strategies in the order of the nodes.
class Following {
 public:
  Following(const LeadingPlan& leader, const Graph& graph, const cost::CostModel& model)
      : leader_(leader),
        graph_(graph),
        mesh_(leader.plan.mesh),
        model_(model),
        facts_(graph),
        prices_(mesh_, model.reshard),
        strategies_(graph.nodes.size()),
        specs_(graph.values.size()),
        undecided_(graph.values.size()),
        copies_(graph.values.size()) {}

  ShardingPlan run() {
    const std::vector<int> counterparts = Counterparts(leader_.graph, graph_).run();
    const auto choose_copy = [&](int value, const Use& use, const ShardingSpec&) {
      const bool leads = facts_.held[value] && use.phase == 0;
      return leads ? copy_as_led(use, counterparts) : ChosenCopy{};
    };
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (counterparts[n] >= 0)
        choose(n, as_led(n, counterparts[n]));
      else if (graph_.nodes[n].op == &ops::input)
        undecided_[graph_.nodes[n].results[0]] = true;
      else
        choose(n, cheapest(n));
    }
    ShardingPlan plan =
        plan_of_strategies(facts_, mesh_, std::move(strategies_), prices_, choose_copy);
    plan.method = kFollow;
    plan.cost = evaluate(plan, facts_, model_);
    return plan;
  }

 private:
  const Rule& rule(int n) const { return facts_.classes.of(n).rule; }

  /// Copies of state are made as often as in the leader, so that they take no more memory.
  ChosenCopy copy_as_led(const Use& use, const std::vector<int>& counterparts) const {
    const int led = use.id.kind == UseKind::node ? counterparts[use.id.index] : -1;
    if (led < 0) return {};
    const int value = leader_.graph.nodes[led].operands[use.operand];
    const std::vector<PlannedReshard>& reshards = leader_.plan.reshards;
    const auto found = std::ranges::find_if(reshards, [&](const PlannedReshard& reshard) {
      return reshard.value == value &&
             std::ranges::binary_search(reshard.uses, UseId{UseKind::node, led});
    });
    if (found == reshards.end()) return {};
    return {static_cast<int>(found - reshards.begin()) + 1, found->once};
  }

  const std::vector<Strategy>& legal(int n) {
    std::vector<Strategy>& known = legal_[facts_.classes.of_node[n]];
    if (!known.empty()) return known;
    known = all_strategies(rule(n), mesh_, IdleDevices::allowed);
    if (model_.reshard.fixed_sums)
      std::erase_if(known, [&](const Strategy& s) { return !keeps_sum_order(rule(n), s, mesh_); });
    return known;
  }

  /// The strategy of the leader's node, without the roles of axes that this node cannot have. Where
  /// it has fewer elements than parts some devices have none; so none has more than in the leader.
  Strategy as_led(int n, int leading) {
    const Strategy& led = leader_.plan.strategies[leading];
    const Rule of_leader = rule_of(leader_.graph, leader_.graph.nodes[leading]);
    Strategy strategy;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      AxisRole role = led.axes[axis];
      if (role.kind == AxisRole::Kind::factor) {
        const int factor = counterpart_of(role.index, of_leader, rule(n));
        role = factor < 0 ? AxisRole{} : AxisRole{role.kind, static_cast<std::uint8_t>(factor)};
      }
      strategy.axes[axis] = role;
      if (std::find(legal(n).begin(), legal(n).end(), strategy) == legal(n).end())
        strategy.axes[axis] = {};
    }
    return operand_seconds(n, strategy) < kInfinity ? strategy : cheapest(n);
  }

  Strategy cheapest(int n) {
    Strategy best;
    double least = kInfinity;
    for (const Strategy& strategy : legal(n)) {
      const double seconds =
          node_seconds(facts_.classes.of(n), facts_.classes.share_of(n), strategy, mesh_, model_) +
          operand_seconds(n, strategy);
      if (seconds >= least) continue;
      least = seconds;
      best = strategy;
    }
    return best;
  }

  /// To reshard the operands, unless an earlier node needed the same copy.
  double operand_seconds(int n, const Strategy& strategy) {
    double seconds = 0;
    for (int j = 0; j < static_cast<int>(graph_.nodes[n].operands.size()); ++j) {
      const int value = graph_.nodes[n].operands[j];
      const ShardingSpec wanted = operand_spec(rule(n), strategy, mesh_, j);
      if (undecided_[value] || has(value, n, wanted)) continue;
      const auto& path = prices_.path(graph_.type(value), specs_[source(value, n)], wanted);
      seconds += path ? path->seconds : kInfinity;
    }
    return seconds;
  }

  /// The value in whose spec node `n` finds `value`.
  int source(int value, int n) const {
    return source_of_use(graph_, facts_.accumulators, value, {UseKind::node, n});
  }

  using Copy = std::pair<int, ShardingSpec>;  ///< phase and spec

  Copy copy_for(int n, const ShardingSpec& spec) const {
    return {phase_of_use(graph_, {UseKind::node, n}), spec};
  }

  bool has(int value, int n, const ShardingSpec& spec) const {
    const std::vector<Copy>& copies = copies_[value];
    return spec == specs_[source(value, n)] ||
           std::find(copies.begin(), copies.end(), copy_for(n, spec)) != copies.end();
  }

  void choose(int n, const Strategy& strategy) {
    strategies_[n] = strategy;
    const Node& node = graph_.nodes[n];
    for (int j = 0; j < static_cast<int>(node.operands.size()); ++j) {
      const ShardingSpec wanted = operand_spec(rule(n), strategy, mesh_, j);
      if (undecided_[node.operands[j]]) decide(node.operands[j], wanted);
      if (!has(node.operands[j], n, wanted))
        copies_[node.operands[j]].push_back(copy_for(n, wanted));
    }
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i)
      specs_[node.results[i]] = result_spec(rule(n), strategy, mesh_, i);
  }

  /// An input without a counterpart has the spec that its first reader needs; whole if it can't, as
  /// what another mesh gives cannot be partial.
  void decide(int value, const ShardingSpec& spec) {
    undecided_[value] = false;
    if (spec.is_partial()) return;
    const int n = graph_.values[value].producer;
    for (const Strategy& strategy : legal(n)) {
      if (result_spec(rule(n), strategy, mesh_) != spec) continue;
      strategies_[n] = strategy;
      specs_[value] = spec;
      return;
    }
  }

  const LeadingPlan& leader_;
  const Graph& graph_;
  const DeviceMesh& mesh_;
  const cost::CostModel& model_;
  const GraphFacts facts_;
  cost::ReshardPrices prices_;
  std::map<int, std::vector<Strategy>> legal_;  ///< by class
  std::vector<Strategy> strategies_;
  // By value:
  std::vector<ShardingSpec> specs_;
  std::vector<bool> undecided_;  ///< inputs that the leader lacks, until a node reads them
  std::vector<std::vector<Copy>> copies_;
};

}  // namespace

ShardingPlan follow(const LeadingPlan& leader, const Graph& graph, const cost::CostModel& model) {
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state) require_state(leader.graph, graph, input);
  return Following(leader, graph, model).run();
}

}  // namespace alpa::intra_op
