// Nodes, edges and shared copies of the planner's integer program
#include "src/search/program/instance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "alpa/base/error.h"
#include "src/base/work.h"
#include "src/search/program/memory_usage.h"

namespace alpa::intra_op {
namespace {

const std::vector<int> kReplicatedOnly = {0};

double largest_finite(const std::vector<double>& seconds) {
  double largest = 0;
  for (double s : seconds) {
    if (std::isfinite(s)) largest = std::max(largest, s);
  }
  return largest;
}

/// Nanoseconds, or the finest power of ten above them in which all costs
/// together stay far from overflow.
double units_for(const Graph& graph, const SearchSpace& space) {
  double bound = 0;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    bound += runs_per_step(graph, graph.nodes[n]) * largest_finite(space.of(n).seconds);
  std::map<int, double> most;  // seconds of one reshard, per type
  const auto& uses = space.graph->uses;
  for (std::size_t v = 0; v < uses.size(); ++v) {
    const int type = space.type_of(graph.values[v]);
    const TypeLayouts& layouts = space.layouts.of(type);
    const auto [place, added] = most.try_emplace(type, 0);
    if (added) place->second = largest_finite(layouts.seconds) + largest_finite(layouts.cuts);
    for (const Use& use : uses[v]) bound += use.runs * place->second;
    if (!uses[v].empty())
      bound += 3 * uses[v].front().runs * place->second * static_cast<double>(layouts.specs.size());
  }
  double units = 1e9;
  while (bound * units > 1e17) units /= 10;
  return units;
}

/// One end of a value: a node of the problem and the spec that each of its strategies means. Equal
/// lists have equal numbers.
struct End {
  int node = -1;
  std::vector<int> specs;
  int list = -1;
  Use use;
};

class InstanceBuilder {
 public:
  InstanceBuilder(const Graph& graph, const SearchSpace& space, MemoryUsage* memory,
                  const std::vector<BoundaryKind>& boundaries)
      : graph_(graph), space_(space), memory_(memory), boundaries_(boundaries) {
    instance_.units_per_second = units_for(graph, space);
  }

  Instance run() && {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) add_node(n);
    instance_.problem.nodes.push_back({{0}, {}});  // metrics, and outputs that want one spec
    const auto readers = readers_of_values(graph_, space_);
    for (int v = 0; v < static_cast<int>(readers.size()); ++v) {
      if (boundary(v) != BoundaryKind::open) add_value(v, readers[v]);
      if (boundary(v) != BoundaryKind::none) add_seen(v, readers[v]);
    }
    if (memory_) instance_.problem.usage_limit = memory_->room();
    return std::move(instance_);
  }

 private:
  void add_node(int n) {
    ilp::Node node;
    const int runs = runs_per_step(graph_, graph_.nodes[n]);
    for (double seconds : space_.of(n).seconds) node.costs.push_back(in_units(runs * seconds));
    if (memory_) node.usages = memory_->of_results(n);
    instance_.problem.nodes.push_back(std::move(node));
  }

  BoundaryKind boundary(int v) const {
    return boundaries_.empty() ? BoundaryKind::none : boundaries_[v];
  }

  /// The ends of a value that other parts see.
  void add_seen(int v, const std::vector<Reader>& readers) {
    const ValueInfo& info = graph_.values[v];
    const Input* input = find_input(graph_, v);
    begin_value(v);
    if (boundary(v) == BoundaryKind::closed || !input || input->kind != InputKind::boundary)
      add_seen(end(info.producer, space_.specs_left(info), {}), {});
    if (boundary(v) == BoundaryKind::closed) return;
    for (const Reader& r : readers) add_seen(end(r.node, *r.wanted, r.use), r.use);
  }

  void add_seen(const End& from, const std::optional<Use>& use) {
    const End seen = spec_end(from);
    instance_.boundary_nodes.push_back({seen.node, value_, use, seen.specs});
  }

  void begin_value(int v) {
    value_ = v;
    type_ = space_.type_of(graph_.values[v]);
  }

  void add_value(int v, const std::vector<Reader>& readers) {
    begin_value(v);
    for (int phase : {0, 1}) {
      std::vector<End> wanting;
      for (const Reader& r : readers) {
        if (r.use.phase == phase) wanting.push_back(end(r.node, *r.wanted, r.use));
      }
      if (wanting.empty()) continue;
      const ValueInfo& source = graph_.values[wanting.front().use.source];
      add_phase(phase, end(source.producer, space_.specs_left(source), {}), wanting);
    }
  }

  bool shares_costs(const End& from, const std::vector<End>& wanting) const {
    return wanting.size() > 1 || !shared_specs(from, wanting).empty();
  }

  /// The readers that want a copy share its cost; each pays for its own cuts. Under a memory limit
  /// copies have nodes, which say when they exist.
  void add_shared(int phase, const End& from, const std::vector<End>& wanting) {
    const int specs = static_cast<int>(layouts().specs.size());
    ilp::SharedCost shared{{from.node, from.specs}, {}, specs, specs, nullptr};
    for (const End& to : wanting) {
      if (to.node != from.node)
        shared.readers.push_back(
            {to.node, to.specs, static_cast<int>(region_of_use(graph_, to.use.id))});
      if (is_inside(to.use)) add_edge(from.node, to.node, edge_table(from, to, false));
    }
    if (memory_ && memory_->matters(value_)) {
      const std::vector<int> copied = shared_specs(from, wanting);
      for (const End& to : wanting) add_reading(to, copied);
      for (int spec : copied) shared.copies.push_back(shared_copy(phase, spec, wanting));
    }
    const int runs = wanting.front().use.copy_runs;
    ilp::Table& table = shared_tables_[{type_, runs}];
    if (!table) {
      std::vector<std::int64_t> costs;
      for (double seconds : layouts().seconds) costs.push_back(in_units(runs * seconds));
      table = ilp::table(std::move(costs));
    }
    shared.costs = table;
    instance_.problem.shared.push_back(std::move(shared));
  }

  ilp::SharedCopy shared_copy(int phase, int spec, const std::vector<End>& wanting) {
    const Copy& copy = new_copy(phase, spec, wanting);
    ilp::SharedCopy shared{copy.node, spec, spec, {}};
    const Use& use = wanting.front().use;
    for (const CopyState& state : copy.states) {
      const int runs = state.once ? 1 : use.runs / use.copy_runs;
      ilp::Supply supply{runs * static_cast<int>(state.lifetimes.size()), 0, state.own};
      for (Region region : {Region::forward, Region::backward, Region::apply})
        if (!state.own && covers(state, region)) supply.serves |= 1u << static_cast<int>(region);
      shared.supplies.push_back(supply);
    }
    return shared;
  }

  void add_phase(int phase, const End& from, const std::vector<End>& wanting) {
    if (shares_costs(from, wanting)) return add_shared(phase, from, wanting);
    const End& reader = wanting.front();
    add_reading(reader, {});
    add_edge(from.node, reader.node, edge_table(from, reader, true));
  }

  void add_reading(const End& to, const std::vector<int>& shared) {
    if (!memory_ || to.node == static_cast<int>(graph_.nodes.size())) return;
    std::vector<ilp::Usage>& usages = instance_.problem.nodes[to.node].usages;
    for (ilp::Usage& usage : memory_->of_reading(value_, to.specs, shared, to.use))
      usages.push_back(std::move(usage));
  }

  const TypeLayouts& layouts() const { return space_.layouts.of(type_); }

  /// Specs that several ends may need and that are not always free; under a memory limit,
  /// specs that any end may need.
  std::vector<int> shared_specs(const End& from, const std::vector<End>& wanting) const {
    std::vector<int> count(layouts().specs.size(), 0), shared;
    const bool alone = memory_ && memory_->matters(value_) &&
                       (memory_->limit().every_copy || may_be_made_once(wanting.front().use));
    if (wanting.size() < 2 && !alone) return shared;
    for (const End& to : wanting) {
      std::vector<bool> seen(count.size(), false);
      for (int spec : to.specs) {
        count[spec] += !seen[spec];
        seen[spec] = true;
      }
    }
    for (int spec = 0; spec < static_cast<int>(count.size()); ++spec) {
      const bool costs = std::any_of(from.specs.begin(), from.specs.end(),
                                     [&](int s) { return layouts().between(s, spec) > 0; });
      const bool copied = alone && (from.specs.size() > 1 || from.specs[0] != spec);
      if (count[spec] > (alone ? 0 : 1) && (costs || copied)) shared.push_back(spec);
    }
    return shared;
  }

  End end(int node, const std::vector<int>& specs, const Use& use) {
    std::vector<int> key = {type_};
    key.insert(key.end(), specs.begin(), specs.end());
    const int list =
        lists_.try_emplace(std::move(key), static_cast<int>(lists_.size())).first->second;
    return {node, specs, list, use};
  }

  /// A node whose strategies are the distinct specs of an end.
  End spec_end(const End& followed) {
    std::vector<int> distinct = followed.specs;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    ilp::Table& table = following_tables_[followed.list];
    if (!table) {
      std::vector<std::int64_t> costs;
      for (int spec : followed.specs) {
        for (int state : distinct) costs.push_back(spec == state ? 0 : ilp::kInfinite);
      }
      table = ilp::table(std::move(costs));
    }
    const int node = add_free_node(distinct.size());
    add_edge(followed.node, node, table);
    instance_.dependents.push_back({node, followed.node, {}});
    for (int spec : followed.specs) {
      const auto state = std::lower_bound(distinct.begin(), distinct.end(), spec);
      instance_.dependents.back().states.push_back(static_cast<int>(state - distinct.begin()));
    }
    return end(node, distinct, followed.use);
  }

  int add_free_node(std::size_t strategies) {
    instance_.problem.nodes.push_back({std::vector<std::int64_t>(strategies, 0), {}});
    return static_cast<int>(instance_.problem.nodes.size()) - 1;
  }

  /// Regions in which the spec can be wanted.
  std::vector<Region> regions_of(int spec, const std::vector<End>& wanting) const {
    std::vector<Region> regions;
    for (const End& to : wanting)
      if (can_want(to, spec)) regions.push_back(region_of_use(graph_, to.use.id));
    std::sort(regions.begin(), regions.end());
    regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
    return regions;
  }

  static bool can_want(const End& to, int spec) {
    return std::find(to.specs.begin(), to.specs.end(), spec) != to.specs.end();
  }

  /// A node for the copy, without edges.
  const Copy& new_copy(int phase, int spec, const std::vector<End>& wanting) {
    std::vector<CopyState> states =
        copy_states(regions_of(spec, wanting), may_be_made_once(wanting.front().use));
    const int node = add_free_node(states.size());
    std::vector<Use> uses;
    for (const End& to : wanting)
      if (can_want(to, spec)) uses.push_back(to.use);
    instance_.problem.nodes.back().usages = memory_->of_copy(value_, spec, states, uses);
    return instance_.copies.emplace_back(Copy{node, value_, phase, spec, std::move(states)});
  }

  /// Costs of a use, by strategies of producer and reader: of cutting the loop that both are in,
  /// and of the reader's own copy.
  ilp::Table edge_table(const End& from, const End& to, bool copied) {
    const bool inside = is_inside(to.use);
    ilp::Table& table =
        edge_tables_[{from.list, to.list, to.use.runs, to.use.copy_runs, 2 * copied + inside}];
    if (table) return table;
    std::vector<std::int64_t> costs;
    costs.reserve(from.specs.size() * to.specs.size());
    for (int have : from.specs)
      for (int wanted : to.specs) {
        const double copy = copied ? layouts().between(have, wanted) : 0,
                     cut = inside ? layouts().cut(have, wanted) : 0;
        costs.push_back(in_units(to.use.copy_runs * copy + to.use.runs * cut));
      }
    return table = ilp::table(std::move(costs));
  }

  /// True if the use reads a value from inside its loop.
  bool is_inside(const Use& use) const {
    return use.operand >= 0 &&
           space_.graph->classes.share_of(use.id.index).reads_inside(use.operand);
  }

  void add_edge(int a, int b, const ilp::Table& table) {
    if (std::any_of(table->begin(), table->end(), [](std::int64_t cost) { return cost != 0; }))
      instance_.problem.edges.push_back({a, b, table});
  }

  std::int64_t in_units(double seconds) const { return units(seconds, instance_.units_per_second); }

  const Graph& graph_;
  const SearchSpace& space_;
  MemoryUsage* memory_;
  const std::vector<BoundaryKind>& boundaries_;
  Instance instance_;
  int value_ = 0, type_ = 0;  ///< being added
  std::map<std::vector<int>, int> lists_;
  std::map<int, ilp::Table> following_tables_;
  std::map<std::array<int, 2>, ilp::Table> shared_tables_;
  std::map<std::array<int, 5>, ilp::Table> edge_tables_;
};

/// nullopt for an output, which any spec will do for.
std::optional<Reader> reader_of(const Graph& graph, const SearchSpace& space, const Use& use) {
  const int index = use.id.index, taker = static_cast<int>(graph.nodes.size());
  switch (use.id.kind) {
    case UseKind::node: return Reader{index, &space.of(index).operand_specs[use.operand], use};
    case UseKind::update: {
      const int input = graph.values[graph.updates[index].input].producer;
      return Reader{input, &space.of(input).result_specs[0], use};
    }
    case UseKind::metric: return Reader{taker, &kReplicatedOnly, use};
    case UseKind::output: return std::nullopt;
  }
  bug("unknown kind of use {}", static_cast<int>(use.id.kind));
}

/// Extends the lifetimes so far by the regions from `next` on: leave one out, make anew, or
/// keep from the region before.
void extend(const std::vector<Region>& regions, std::size_t next,
            std::vector<CopyLifetime>& lifetimes, std::vector<CopyState>& states) {
  if (next == regions.size()) {
    if (!lifetimes.empty()) states.push_back({lifetimes, false});
    return;
  }
  extend(regions, next + 1, lifetimes, states);
  lifetimes.push_back({regions[next], regions[next]});
  extend(regions, next + 1, lifetimes, states);
  lifetimes.pop_back();
  if (lifetimes.empty() || lifetimes.back().last != regions[next - 1]) return;
  const Region last = lifetimes.back().last;
  lifetimes.back().last = regions[next];
  extend(regions, next + 1, lifetimes, states);
  lifetimes.back().last = last;
}

}  // namespace

std::vector<CopyState> copy_states(const std::vector<Region>& regions, bool held) {
  std::vector<CopyState> states = {{}, {{}, true}};
  std::vector<CopyLifetime> lifetimes;
  extend(regions, 0, lifetimes, states);
  if (!held) return states;
  const auto is_kept = [](const CopyLifetime& m) { return m.first != m.last; };
  std::erase_if(states, [&](const CopyState& state) {
    return std::any_of(state.lifetimes.begin(), state.lifetimes.end(), is_kept);
  });
  states.push_back({{{regions.front(), regions.back()}}, false, true});
  return states;
}

bool covers(const CopyState& state, Region region) {
  if (state.own) return true;
  for (const CopyLifetime& m : state.lifetimes) {
    if (m.first <= region && region <= m.last) return true;
  }
  return false;
}

std::vector<std::vector<Reader>> readers_of_values(const Graph& graph, const SearchSpace& space) {
  std::vector<std::vector<Reader>> readers;
  for (const std::vector<Use>& uses : space.graph->uses) {
    readers.emplace_back();
    for (const Use& use : uses)
      if (auto reader = reader_of(graph, space, use)) readers.back().push_back(*reader);
  }
  return readers;
}

std::int64_t units(double seconds, double units_per_second) {
  return std::isfinite(seconds) ? std::llround(seconds * units_per_second) : ilp::kInfinite;
}

Instance build_instance(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
                        const std::optional<MemoryLimit>& limit,
                        const std::vector<BoundaryKind>& boundaries) {
  spend_nodes(graph.nodes.size());
  if (!limit) return InstanceBuilder(graph, space, nullptr, boundaries).run();
  MemoryUsage memory(graph, space, mesh, *limit);
  return InstanceBuilder(graph, space, &memory, boundaries).run();
}

}  // namespace alpa::intra_op
