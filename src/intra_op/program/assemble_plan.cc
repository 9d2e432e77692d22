// Specs and reshardings that follow from the solver's choice
#include "src/intra_op/program/assemble_plan.h"

#include <algorithm>
#include <array>
#include <map>

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

void sort_by_first_use(ShardingPlan& plan) {
  std::stable_sort(plan.reshards.begin(), plan.reshards.end(),
                   [](const PlannedReshard& a, const PlannedReshard& b) {
                     return a.uses.front() < b.uses.front();
                   });
}

/// The solver's choice, and the copies chosen with it.
struct Chosen {
  const Graph& graph;
  const SearchSpace& space;
  const std::vector<int>& choice;
  std::map<std::array<int, 3>, const CopyState*> copies;  ///< by value, phase and spec
};

Chosen chosen_by(const Graph& graph, const SearchSpace& space, const Instance& instance,
                 const std::vector<int>& choice) {
  Chosen chosen{graph, space, choice, {}};
  for (const Copy& copy : instance.copies)
    chosen.copies[{copy.value, copy.phase, copy.spec}] = &copy.states[choice[copy.node]];
  return chosen;
}

/// The spec in which a value is left.
int produced_spec(const Chosen& chosen, int value) {
  const ValueInfo& info = chosen.graph.values[value];
  return chosen.space.specs_left(info)[chosen.choice[info.producer]];
}

/// The chosen lifetime of a copy that serves the use.
int lifetime_of(const Chosen& chosen, int value, int spec, const Use& use) {
  const auto copy = chosen.copies.find({value, use.phase, spec});
  if (copy == chosen.copies.end()) return 0;
  const std::vector<CopyLifetime>& lifetimes = copy->second->lifetimes;
  const Region region = region_of_use(chosen.graph, use.id);
  const auto lifetime =
      std::find_if(lifetimes.begin(), lifetimes.end(),
                   [&](const CopyLifetime& m) { return m.first <= region && region <= m.last; });
  invariant(lifetime != lifetimes.end(),
            "{} reads a copy of value {} that the solver did not choose",
            use_text(chosen.graph, use.id), value);
  return static_cast<int>(lifetime - lifetimes.begin());
}

/// The reshards of value `v`.
std::vector<PlannedReshard> reshards_of(const Chosen& chosen, int v,
                                        const std::vector<Reader>& readers,
                                        cost::ReshardPrices& prices) {
  std::map<std::array<int, 3>, std::vector<UseId>> uses;  // by phase, spec and lifetime
  std::array<int, 2> from{};                              // by phase
  for (const Reader& reader : readers) {
    const int to = (*reader.wanted)[chosen.choice[reader.node]];
    from[reader.use.phase] = produced_spec(chosen, reader.use.source);
    if (to == from[reader.use.phase]) continue;
    std::vector<UseId>& list = uses[{reader.use.phase, to, lifetime_of(chosen, v, to, reader.use)}];
    if (list.empty() || list.back() != reader.use.id) list.push_back(reader.use.id);
  }
  const TypeLayouts& layouts = chosen.space.layouts_of(chosen.graph.values[v]);
  std::vector<PlannedReshard> reshards;
  for (auto& [target, list] : uses)
    reshards.push_back({v,
                        path_between(layouts.type, layouts.specs[from[target[0]]],
                                     layouts.specs[target[1]], prices),
                        std::move(list)});
  return reshards;
}

}  // namespace

ShardingPlan assemble_plan(const Graph& graph, const SearchSpace& space, const Instance& instance,
                           const std::vector<int>& choice, const DeviceMesh& mesh,
                           cost::ReshardPrices& prices) {
  ShardingPlan plan;
  plan.mesh = mesh;
  const Chosen chosen = chosen_by(graph, space, instance, choice);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    plan.strategies.push_back(space.of(n).strategies[choice[n]]);
  const auto readers = readers_of_values(graph, space);
  for (int v = 0; v < static_cast<int>(readers.size()); ++v) {
    plan.specs.push_back(space.layouts_of(graph.values[v]).specs[produced_spec(chosen, v)]);
    for (PlannedReshard& reshard : reshards_of(chosen, v, readers[v], prices))
      plan.reshards.push_back(std::move(reshard));
  }
  sort_by_first_use(plan);
  return plan;
}

ShardingPlan plan_of_strategies(const GraphFacts& facts, const DeviceMesh& mesh,
                                std::vector<Strategy> strategies, cost::ReshardPrices& prices) {
  ShardingPlan plan;
  plan.mesh = mesh;
  plan.strategies = std::move(strategies);
  const Graph& graph = facts.graph;
  for (const ValueInfo& info : graph.values)
    plan.specs.push_back(result_spec(facts.classes.of(info.producer).rule,
                                     plan.strategies[info.producer], mesh, info.index));
  const std::vector<std::vector<Use>>& uses = facts.uses;
  for (int v = 0; v < static_cast<int>(uses.size()); ++v) {
    std::map<std::pair<int, std::string>, PlannedReshard> reshards;  // by phase and spec
    for (const Use& use : uses[v]) {
      const ShardingSpec wanted = wanted_spec(facts, plan, use), &found = plan.specs[use.source];
      if (wanted == found) continue;
      PlannedReshard& reshard = reshards[{use.phase, to_string(wanted)}];
      if (reshard.uses.empty())
        reshard = {v, path_between(graph.type(v), found, wanted, prices), {}};
      if (reshard.uses.empty() || reshard.uses.back() != use.id) reshard.uses.push_back(use.id);
    }
    for (auto& [target, reshard] : reshards) plan.reshards.push_back(std::move(reshard));
  }
  sort_by_first_use(plan);
  return plan;
}

}  // namespace alpa::intra_op
