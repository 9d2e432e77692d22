// src/intra_op/assemble_plan.cc — specs and reshardings that follow from the solver's choice
#include "assemble_plan.h"

#include <algorithm>
#include <array>
#include <map>

#include "alpa/base/error.h"

namespace alpa {
namespace {

const ReshardPath& path_between(const TensorType& type, const ShardingSpec& from,
                                const ShardingSpec& to, ReshardPrices& prices) {
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

class Assembly {
 public:
  Assembly(const Graph& graph, const SearchSpace& space, const std::vector<int>& choice,
           ReshardPrices& prices, ShardingPlan& plan)
      : graph_(graph), space_(space), choice_(choice), prices_(prices), plan_(plan) {}

  void run(const Instance& instance) {
    for (const Copy& copy : instance.copies)
      copies_[{copy.value, copy.phase, copy.spec}] = &copy.states[choice_[copy.node]];
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      plan_.strategies.push_back(space_.of(n).strategies[choice_[n]]);
    const auto readers = readers_of_values(graph_, space_);
    for (int v = 0; v < static_cast<int>(readers.size()); ++v) add_value(v, readers[v]);
    for (std::size_t o = 0; o < graph_.outputs.size(); ++o) {
      const int value = graph_.outputs[o].value;
      plan_.outputs.push_back(space_.outputs[o].value_or(plan_.specs[value]));
    }
    sort_by_first_use(plan_);
  }

 private:
  void add_value(int v, const std::vector<Reader>& readers) {
    const int type = space_.type_of(graph_.values[v]);
    plan_.specs.push_back(space_.layouts.of(type).specs[produced(v)]);
    std::map<std::array<int, 3>, std::vector<UseId>> uses;  // by phase, spec and lifetime
    std::array<int, 2> from{};                              // by phase
    for (const Reader& reader : readers) {
      const int to = (*reader.wanted)[choice_[reader.node]];
      from[reader.use.phase] = produced(reader.use.source);
      if (to == from[reader.use.phase]) continue;
      std::vector<UseId>& list = uses[{reader.use.phase, to, lifetime_of(v, to, reader.use)}];
      if (list.empty() || list.back() != reader.use.id) list.push_back(reader.use.id);
    }
    for (auto& [target, list] : uses)
      plan_.reshards.push_back({v, path(type, from[target[0]], target[1]), std::move(list)});
  }

  /// The spec in which a value is left.
  int produced(int value) const {
    const ValueInfo& info = graph_.values[value];
    return space_.of(info.producer).result_specs[info.index][choice_[info.producer]];
  }

  /// The chosen lifetime of a copy that serves the use.
  int lifetime_of(int value, int spec, const Use& use) const {
    const auto copy = copies_.find({value, use.phase, spec});
    if (copy == copies_.end()) return 0;
    const std::vector<CopyLifetime>& lifetimes = copy->second->lifetimes;
    const Region region = region_of_use(graph_, use.id);
    const auto lifetime =
        std::find_if(lifetimes.begin(), lifetimes.end(),
                     [&](const CopyLifetime& m) { return m.first <= region && region <= m.last; });
    invariant(lifetime != lifetimes.end(),
              "{} reads a copy of value {} that the solver did not choose",
              use_text(graph_, use.id), value);
    return static_cast<int>(lifetime - lifetimes.begin());
  }

  const ReshardPath& path(int type, int from, int to) {
    const TypeLayouts& layouts = space_.layouts.of(type);
    return path_between(layouts.type, layouts.specs[from], layouts.specs[to], prices_);
  }

  const Graph& graph_;
  const SearchSpace& space_;
  const std::vector<int>& choice_;
  ReshardPrices& prices_;
  ShardingPlan& plan_;
  std::map<std::array<int, 3>, const CopyState*> copies_;  ///< by value, phase and spec
};

}  // namespace

ShardingPlan assemble_plan(const Graph& graph, const SearchSpace& space, const Instance& instance,
                           const std::vector<int>& choice, const DeviceMesh& mesh,
                           ReshardPrices& prices) {
  ShardingPlan plan;
  plan.mesh = mesh;
  Assembly(graph, space, choice, prices, plan).run(instance);
  return plan;
}

ShardingPlan plan_of_strategies(const GraphFacts& facts, const DeviceMesh& mesh,
                                std::vector<Strategy> strategies, ReshardPrices& prices) {
  ShardingPlan plan;
  plan.mesh = mesh;
  plan.strategies = std::move(strategies);
  const Graph& graph = facts.graph;
  for (const ValueInfo& info : graph.values)
    plan.specs.push_back(result_spec(facts.classes.of(info.producer).rule,
                                     plan.strategies[info.producer], mesh, info.index));
  for (const Output& output : graph.outputs) plan.outputs.push_back(plan.specs[output.value]);
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

}  // namespace alpa
