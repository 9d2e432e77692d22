// src/intra_op/known_choice.cc — turns a plan into a choice of the solver
#include "known_choice.h"

#include <algorithm>
#include <array>
#include <map>

namespace alpa {
namespace {

/// Number of the spec, -1 if it does not occur in the search.
int find_number(const TypeLayouts& layouts, const ShardingSpec& spec) {
  const auto found = layouts.numbers.find(spec);
  return found == layouts.numbers.end() ? -1 : found->second;
}

class KnownChoice {
 public:
  KnownChoice(const ShardingPlan& plan, const Graph& graph, const SearchSpace& space,
              const Instance& instance)
      : plan_(plan),
        graph_(graph),
        space_(space),
        instance_(instance),
        accumulators_(space.graph->accumulators) {}

  std::optional<std::vector<int>> run() && {
    choice_.assign(instance_.problem.nodes.size(), 0);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      choice_[n] = index_of(n);
      if (choice_[n] < 0) return std::nullopt;
    }
    for (const DependentNode& f : instance_.dependents) choice_[f.node] = f.states[choice_[f.of]];
    find_lifetimes();
    for (const Copy& copy : instance_.copies) {
      choice_[copy.node] = state_of(copy);
      if (choice_[copy.node] < 0) return std::nullopt;
    }
    return std::move(choice_);
  }

 private:
  /// The node's strategy in the search space, or the representative of those with equal specs.
  int index_of(int n) {
    const Strategy& strategy = plan_.strategies[n];
    auto& known = known_[space_.of_node[n]];
    const auto place = std::find_if(known.begin(), known.end(),
                                    [&](const auto& entry) { return entry.first == strategy; });
    if (place != known.end()) return place->second;
    known.emplace_back(strategy, find_strategy(space_.of(n), strategy));
    return known.back().second;
  }

  int find_strategy(const NodeStrategies& choices, const Strategy& strategy) const {
    const auto same = std::find(choices.strategies.begin(), choices.strategies.end(), strategy);
    if (same != choices.strategies.end())
      return static_cast<int>(same - choices.strategies.begin());
    const Rule& rule = space_.graph->classes.classes[choices.node_class].rule;
    const auto equal_specs = [&](int s) {
      for (std::size_t j = 0; j < choices.operand_specs.size(); ++j) {
        const ShardingSpec spec = operand_spec(rule, strategy, plan_.mesh, static_cast<int>(j));
        if (find_number(space_.layouts.of(choices.operand_types[j]), spec) !=
            choices.operand_specs[j][s])
          return false;
      }
      for (std::size_t i = 0; i < choices.result_specs.size(); ++i) {
        const ShardingSpec spec = result_spec(rule, strategy, plan_.mesh, static_cast<int>(i));
        if (find_number(space_.layouts.of(choices.result_types[i]), spec) !=
            choices.result_specs[i][s])
          return false;
      }
      return true;
    };
    for (int s = 0; s < static_cast<int>(choices.strategies.size()); ++s) {
      if (equal_specs(s)) return s;
    }
    return -1;
  }

  const TypeLayouts& layouts_of(int value) const { return space_.layouts_of(graph_.values[value]); }

  /// Per value, phase and spec: whether a use wants it, and the lifetimes by
  /// which the plan serves it.
  void find_lifetimes() {
    for (const PlannedReshard& r : plan_.reshards) {
      const Region first = region_of_use(graph_, r.uses.front());
      const int phase = graph_.num_micro_batches > 1 && first == Region::apply ? 1 : 0;
      CopyLifetime lifetime{first, first};
      for (UseId use : r.uses) {
        lifetime.first = std::min(lifetime.first, region_of_use(graph_, use));
        lifetime.last = std::max(lifetime.last, region_of_use(graph_, use));
      }
      lifetimes_[{r.value, phase, find_number(layouts_of(r.value), r.path.steps.back().to)}]
          .push_back(lifetime);
    }
    const auto readers = readers_of_values(graph_, space_);
    for (int v = 0; v < static_cast<int>(readers.size()); ++v) {
      for (const Reader& reader : readers[v])
        wanted_[{v, reader.use.phase, (*reader.wanted)[choice_[reader.node]]}] = true;
    }
  }

  /// State of the copy: absent where no use wants it, -1 if no state is as the plan has it.
  int state_of(const Copy& copy) const {
    const std::array<int, 3> key = {copy.value, copy.phase, copy.spec};
    if (!wanted_.count(key)) return 0;
    const auto index = [&](auto matches) {
      const auto place = std::find_if(copy.states.begin(), copy.states.end(), matches);
      return place == copy.states.end() ? -1 : static_cast<int>(place - copy.states.begin());
    };
    const bool held = copy.phase == 1 && accumulators_[copy.value] >= 0;
    const int source = held ? accumulators_[copy.value] : copy.value;
    if (find_number(layouts_of(copy.value), plan_.specs[source]) == copy.spec)
      return index([](const CopyState& state) { return state.own; });
    const auto found = lifetimes_.find(key);
    if (found == lifetimes_.end()) return -1;
    std::vector<CopyLifetime> lifetimes = found->second;
    const auto earlier = [](const CopyLifetime& a, const CopyLifetime& b) {
      return a.first < b.first;
    };
    std::sort(lifetimes.begin(), lifetimes.end(), earlier);
    return index([&](const CopyState& state) {
      return std::equal(lifetimes.begin(), lifetimes.end(), state.lifetimes.begin(),
                        state.lifetimes.end(), [](const CopyLifetime& a, const CopyLifetime& b) {
                          return a.first == b.first && a.last == b.last;
                        });
    });
  }

  const ShardingPlan& plan_;
  const Graph& graph_;
  const SearchSpace& space_;
  const Instance& instance_;
  const std::vector<int>& accumulators_;
  std::vector<int> choice_;
  /// by choices of the search space
  std::map<int, std::vector<std::pair<Strategy, int>>> known_;
  std::map<std::array<int, 3>, std::vector<CopyLifetime>> lifetimes_;  ///< by value, phase and spec
  std::map<std::array<int, 3>, bool> wanted_;
};

}  // namespace

std::optional<std::vector<int>> choice_of(const ShardingPlan& plan, const Graph& graph,
                                          const SearchSpace& space, const Instance& instance) {
  return KnownChoice(plan, graph, space, instance).run();
}

}  // namespace alpa
