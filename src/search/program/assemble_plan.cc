// Specs and reshardings that follow from the solver's choice, and the choice that a plan stands for
#include "src/search/program/assemble_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "alpa/base/error.h"

namespace alpa::intra_op {
namespace {

const ReshardPath& path_between(const TensorType& type, const ShardingSpec& from,
                                const ShardingSpec& to, cost::ReshardPrices& prices) {
  const auto& found = prices.path(type, from, to);
  if (!found)
    bug("the chosen plan reshards {} from {} to {}, which is impossible", to_string(type),
        to_string(from), to_string(to));
  return *found;
}

ShardingPlan plan_of(const GraphFacts& facts, const DeviceMesh& mesh,
                     std::vector<Strategy> strategies, cost::ReshardPrices& prices,
                     const ChooseCopy& copy_of_use) {
  ShardingPlan plan;
  plan.mesh = mesh;
  plan.strategies = std::move(strategies);
  const Graph& graph = facts.graph;
  for (const ValueInfo& info : graph.values)
    plan.specs.push_back(result_spec(facts.classes.of(info.producer).rule,
                                     plan.strategies[info.producer], mesh, info.index));
  for (int v = 0; v < static_cast<int>(facts.uses.size()); ++v) {
    std::map<std::tuple<int, std::string, int>, PlannedReshard> reshards;  // by phase, spec, copy
    for (const Use& use : facts.uses[v]) {
      const ShardingSpec wanted = wanted_spec(facts, plan, use), &found = plan.specs[use.source];
      if (wanted == found) continue;
      const ChosenCopy copy = copy_of_use(v, use, wanted);
      PlannedReshard& reshard = reshards[{use.phase, to_string(wanted), copy.number}];
      if (reshard.uses.empty())
        reshard = {v, path_between(graph.type(v), found, wanted, prices), {}, copy.once};
      if (reshard.uses.empty() || reshard.uses.back() != use.id) reshard.uses.push_back(use.id);
    }
    for (auto& [target, reshard] : reshards) plan.reshards.push_back(std::move(reshard));
  }
  sort_by_first_use(plan.reshards);
  return plan;
}

/// Number of the spec, -1 if it does not occur in the search.
int find_number(const TypeLayouts& layouts, const ShardingSpec& spec) {
  const auto found = layouts.numbers.find(spec);
  return found == layouts.numbers.end() ? -1 : found->second;
}

/// True if the strategy reads and leaves specs as strategy s of the choices does.
bool has_specs_of(const SearchSpace& space, const NodeStrategies& choices, int s,
                  const Strategy& strategy, const DeviceMesh& mesh) {
  const Rule& rule = space.graph->classes.classes[choices.node_class].rule;
  const auto number = [&](int type, const ShardingSpec& spec) {
    return find_number(space.layouts.of(type), spec);
  };
  for (int j = 0; j < static_cast<int>(choices.operand_specs.size()); ++j)
    if (number(choices.operand_types[j], operand_spec(rule, strategy, mesh, j)) !=
        choices.operand_specs[j][s])
      return false;
  for (int i = 0; i < static_cast<int>(choices.result_specs.size()); ++i)
    if (number(choices.result_types[i], result_spec(rule, strategy, mesh, i)) !=
        choices.result_specs[i][s])
      return false;
  return true;
}

/// Index of the strategy, or of the representative of those with equal specs; -1: there is none.
int index_of(const SearchSpace& space, const NodeStrategies& choices, const Strategy& strategy,
             const DeviceMesh& mesh) {
  const auto same = std::find(choices.strategies.begin(), choices.strategies.end(), strategy);
  if (same != choices.strategies.end()) return static_cast<int>(same - choices.strategies.begin());
  for (int s = 0; s < static_cast<int>(choices.strategies.size()); ++s)
    if (has_specs_of(space, choices, s, strategy, mesh)) return s;
  return -1;
}

/// Per node of the graph, the index of the plan's strategy; empty if the search space lacks one.
std::vector<int> strategies_of(const ShardingPlan& plan, const SearchSpace& space) {
  std::map<int, std::vector<std::pair<Strategy, int>>> known;  // by choices of the search space
  std::vector<int> result;
  for (std::size_t n = 0; n < plan.strategies.size(); ++n) {
    const Strategy& strategy = plan.strategies[n];
    auto& entries = known[space.of_node[n]];
    auto place = std::find_if(entries.begin(), entries.end(),
                              [&](const auto& entry) { return entry.first == strategy; });
    if (place == entries.end()) {
      const int index = index_of(space, space.of(static_cast<int>(n)), strategy, plan.mesh);
      place = entries.emplace(entries.end(), strategy, index);
    }
    if (place->second < 0) return {};
    result.push_back(place->second);
  }
  return result;
}

/// Copies of values in other specs, by value, phase and spec.
struct PlannedCopies {
  using Key = std::array<int, 3>;
  std::set<Key> wanted;                                ///< some use reads it
  std::map<Key, std::vector<CopyLifetime>> lifetimes;  ///< in which the plan's reshardings make it
  std::set<Key> once;                                  ///< made once per step
};

CopyLifetime lifetime_of(const PlannedReshard& reshard, const Graph& graph) {
  const Region region = region_of_use(graph, reshard.uses.front());
  CopyLifetime lifetime{region, region};
  for (UseId use : reshard.uses) {
    lifetime.first = std::min(lifetime.first, region_of_use(graph, use));
    lifetime.last = std::max(lifetime.last, region_of_use(graph, use));
  }
  return lifetime;
}

/// `choice`: of all nodes but copies.
PlannedCopies planned_copies(const ShardingPlan& plan, const Graph& graph, const SearchSpace& space,
                             const std::vector<int>& choice) {
  PlannedCopies copies;
  for (const PlannedReshard& r : plan.reshards) {
    const Region first = region_of_use(graph, r.uses.front());
    const int phase = graph.num_micro_batches > 1 && first == Region::apply ? 1 : 0;
    const int spec = find_number(space.layouts_of(graph.values[r.value]), r.path.steps.back().to);
    copies.lifetimes[{r.value, phase, spec}].push_back(lifetime_of(r, graph));
    if (r.once) copies.once.insert({r.value, phase, spec});
  }
  for (auto& [key, lifetimes] : copies.lifetimes)
    std::sort(lifetimes.begin(), lifetimes.end(),
              [](const CopyLifetime& a, const CopyLifetime& b) { return a.first < b.first; });
  const auto readers = readers_of_values(graph, space);
  for (int v = 0; v < static_cast<int>(readers.size()); ++v)
    for (const Reader& reader : readers[v])
      copies.wanted.insert({v, reader.use.phase, (*reader.wanted)[choice[reader.node]]});
  return copies;
}

/// The first state that matches; -1: none does.
template <class Matches>
int find_state(const Copy& copy, Matches matches) {
  const auto place = std::find_if(copy.states.begin(), copy.states.end(), matches);
  return place == copy.states.end() ? -1 : static_cast<int>(place - copy.states.begin());
}

/// State of the copy: absent where no use wants it, -1 if no state is as the plan has it.
/// `left`: the spec in which its source is left.
int state_of(const Copy& copy, const PlannedCopies& copies, int left) {
  const PlannedCopies::Key key = {copy.value, copy.phase, copy.spec};
  if (!copies.wanted.contains(key)) return 0;
  if (left == copy.spec) return find_state(copy, [](const CopyState& state) { return state.own; });
  const auto planned = copies.lifetimes.find(key);
  if (planned == copies.lifetimes.end()) return -1;
  if (copies.once.contains(key))
    return find_state(copy, [](const CopyState& state) { return state.once; });
  return find_state(copy, [&](const CopyState& state) {
    return !state.once && state.lifetimes == planned->second;
  });
}

/// Number of the spec in which the source of a copy is left.
int spec_left(const Copy& copy, const ShardingPlan& plan, const Graph& graph,
              const SearchSpace& space) {
  const std::vector<int>& accumulators = space.graph->accumulators;
  const bool held = copy.phase == 1 && accumulators[copy.value] >= 0;
  const int source = held ? accumulators[copy.value] : copy.value;
  return find_number(space.layouts_of(graph.values[copy.value]), plan.specs[source]);
}

}  // namespace

void sort_by_first_use(std::vector<PlannedReshard>& reshards) {
  std::stable_sort(reshards.begin(), reshards.end(),
                   [](const PlannedReshard& a, const PlannedReshard& b) {
                     return a.uses.front() < b.uses.front();
                   });
}

ShardingPlan assemble_plan(const Graph& graph, const SearchSpace& space, const Instance& instance,
                           const std::vector<int>& choice, const DeviceMesh& mesh,
                           cost::ReshardPrices& prices) {
  std::vector<Strategy> strategies;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    strategies.push_back(space.of(n).strategies[choice[n]]);
  std::map<std::array<int, 3>, const CopyState*> copies;  // by value, phase and spec
  for (const Copy& copy : instance.copies)
    copies[{copy.value, copy.phase, copy.spec}] = &copy.states[choice[copy.node]];
  const auto copy_of_use = [&](int value, const Use& use,
                               const ShardingSpec& wanted) -> ChosenCopy {
    const ChosenCopy cheapest{0, may_be_made_once(use)};
    if (copies.empty()) return cheapest;
    const int spec = find_number(space.layouts_of(graph.values[value]), wanted);
    const auto copy = copies.find({value, use.phase, spec});
    if (copy == copies.end()) return cheapest;
    if (copy->second->once) return cheapest;
    const std::vector<CopyLifetime>& lifetimes = copy->second->lifetimes;
    const Region region = region_of_use(graph, use.id);
    const auto lifetime =
        std::find_if(lifetimes.begin(), lifetimes.end(),
                     [&](const CopyLifetime& m) { return m.first <= region && region <= m.last; });
    invariant(lifetime != lifetimes.end(),
              "{} reads a copy of value {} that the solver did not choose", use_text(graph, use.id),
              value);
    return {static_cast<int>(lifetime - lifetimes.begin()), false};
  };
  return plan_of(*space.graph, mesh, std::move(strategies), prices, copy_of_use);
}

ShardingPlan plan_of_strategies(const GraphFacts& facts, const DeviceMesh& mesh,
                                std::vector<Strategy> strategies, cost::ReshardPrices& prices) {
  return plan_of(facts, mesh, std::move(strategies), prices,
                 [](int, const Use& use, const ShardingSpec&) {
                   return ChosenCopy{0, may_be_made_once(use)};
                 });
}

ShardingPlan plan_of_strategies(const GraphFacts& facts, const DeviceMesh& mesh,
                                std::vector<Strategy> strategies, cost::ReshardPrices& prices,
                                const ChooseCopy& choose) {
  return plan_of(facts, mesh, std::move(strategies), prices, choose);
}

std::optional<std::vector<int>> choice_of(const ShardingPlan& plan, const Graph& graph,
                                          const SearchSpace& space, const Instance& instance) {
  std::vector<int> choice = strategies_of(plan, space);
  if (choice.size() != graph.nodes.size()) return std::nullopt;
  choice.resize(instance.problem.nodes.size(), 0);
  for (const DependentNode& f : instance.dependents) choice[f.node] = f.states[choice[f.of]];
  const PlannedCopies copies = planned_copies(plan, graph, space, choice);
  for (const Copy& copy : instance.copies) {
    choice[copy.node] = state_of(copy, copies, spec_left(copy, plan, graph, space));
    if (choice[copy.node] < 0) return std::nullopt;
  }
  return choice;
}

}  // namespace alpa::intra_op
