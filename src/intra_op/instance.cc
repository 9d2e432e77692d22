// src/intra_op/instance.cc — nodes, edges and shared copies of the planner's integer program
#include "instance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace alpa {
namespace {

const std::vector<int> kReplicatedOnly = {0};

double largest_finite(const std::vector<double>& seconds) {
  double largest = 0;
  for (double s : seconds) {
    if (std::isfinite(s)) largest = std::max(largest, s);
  }
  return largest;
}

/// Nanoseconds, or the finest power of ten below them in which all costs together stay far from overflow.
double unit_for(const Graph& graph, const SearchSpace& space) {
  double bound = 0;
  for (const Node& node : graph.nodes)
    bound += runs_per_step(graph, node) * largest_finite(space.of(&node - graph.nodes.data()).seconds);
  const auto uses = uses_of_values(graph);
  std::map<int, double> dearest;
  for (std::size_t v = 0; v < uses.size(); ++v) {
    const int type = space.of(graph.values[v].producer).result_types[graph.values[v].index];
    const TypeLayouts& layouts = space.layouts.of(type);
    const auto [place, added] = dearest.try_emplace(type, 0);
    if (added) place->second = largest_finite(layouts.seconds);
    for (const Use& use : uses[v]) bound += use.runs * place->second;
    if (uses[v].size() > 1)
      bound += uses[v].front().runs * place->second * static_cast<double>(layouts.specs.size());
  }
  double unit = 1e9;
  while (bound * unit > 1e17) unit /= 10;
  return unit;
}

class InstanceBuilder {
 public:
  InstanceBuilder(const Graph& graph, const SearchSpace& space) : graph_(graph), space_(space) {
    instance_.units_per_second = unit_for(graph, space);
  }

  Instance run() && {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) add_node(n);
    instance_.problem.nodes.push_back({{0}, {}});  // the metrics
    const auto readers = readers_of_values(graph_, space_);
    for (int v = 0; v < static_cast<int>(readers.size()); ++v) add_value(v, readers[v]);
    return std::move(instance_);
  }

 private:
  void add_node(int n) {
    ilp::Node node;
    const int runs = runs_per_step(graph_, graph_.nodes[n]);
    for (double seconds : space_.of(n).seconds) node.costs.push_back(in_units(runs * seconds));
    instance_.problem.nodes.push_back(std::move(node));
  }

  void add_value(int v, const std::vector<Reader>& readers) {
    const ValueInfo& info = graph_.values[v];
    value_ = {info.producer, space_.of_node[info.producer], info.index};
    for (int phase : {0, 1}) {
      std::vector<Reader> here;
      std::copy_if(readers.begin(), readers.end(), std::back_inserter(here),
                   [&](const Reader& r) { return r.use.phase == phase; });
      if (here.empty()) continue;
      const std::vector<int> shared = shared_specs(here);
      for (int spec : shared) add_copy(spec, here);
      const int set = shared_sets_.try_emplace(shared, static_cast<int>(shared_sets_.size())).first->second;
      for (const Reader& reader : here) add_direct(reader, shared, set);
    }
  }

  const TypeLayouts& layouts() const {
    return space_.layouts.of(space_.choices[value_.choices].result_types[value_.result]);
  }
  const std::vector<int>& produced() const {
    return space_.choices[value_.choices].produced[value_.result];
  }

  /// Specs that at least two readers can want and that are not always there for free.
  std::vector<int> shared_specs(const std::vector<Reader>& readers) const {
    std::vector<int> wanting(layouts().specs.size(), 0), shared;
    if (readers.size() < 2) return shared;
    for (const Reader& reader : readers) {
      std::vector<bool> seen(wanting.size(), false);
      for (int spec : *reader.wanted) {
        if (!seen[spec]) ++wanting[spec];
        seen[spec] = true;
      }
    }
    for (int spec = 0; spec < static_cast<int>(wanting.size()); ++spec) {
      const bool costs = std::any_of(produced().begin(), produced().end(),
                                     [&](int from) { return layouts().between(from, spec) > 0; });
      if (wanting[spec] > 1 && costs) shared.push_back(spec);
    }
    return shared;
  }

  void add_copy(int spec, const std::vector<Reader>& readers) {
    const int copy = static_cast<int>(instance_.problem.nodes.size());
    instance_.problem.nodes.push_back({{0, 0}, {}});
    add_edge(value_.node, copy, copy_table(spec, readers.front().use.runs));
    for (const Reader& reader : readers) add_edge(copy, reader.node, reading_table(reader, spec));
  }

  /// Producer's strategy x {absent, present}.
  ilp::Table copy_table(int spec, int runs) {
    ilp::Table& table = copy_tables_[{value_.choices, value_.result, spec, runs}];
    if (table) return table;
    std::vector<std::int64_t> costs;
    for (int from : produced()) {
      costs.push_back(0);
      costs.push_back(in_units(runs * layouts().between(from, spec)));
    }
    return table = ilp::table(std::move(costs));
  }

  /// {absent, present} x reader's strategy.
  ilp::Table reading_table(const Reader& reader, int spec) {
    ilp::Table& table = reading_tables_[{reader.choices, reader.operand, spec}];
    if (table) return table;
    std::vector<std::int64_t> costs;
    for (int wanted : *reader.wanted) costs.push_back(wanted == spec ? ilp::kInfinite : 0);
    costs.resize(2 * costs.size(), 0);
    return table = ilp::table(std::move(costs));
  }

  void add_direct(const Reader& reader, const std::vector<int>& shared, int set) {
    const std::array<int, 6> key = {value_.choices, value_.result, reader.choices,
                                    reader.operand, set,           reader.use.runs};
    const auto [place, added] = direct_tables_.try_emplace(key);
    if (added) place->second = direct_table(reader, shared);
    add_edge(value_.node, reader.node, place->second);
  }

  ilp::Table direct_table(const Reader& reader, const std::vector<int>& shared) const {
    std::vector<std::int64_t> costs;
    costs.reserve(produced().size() * reader.wanted->size());
    for (int from : produced()) {
      for (int to : *reader.wanted) {
        const bool copied = std::binary_search(shared.begin(), shared.end(), to);
        costs.push_back(copied ? 0 : in_units(reader.use.runs * layouts().between(from, to)));
      }
    }
    return ilp::table(std::move(costs));
  }

  void add_edge(int a, int b, const ilp::Table& table) {
    if (std::any_of(table->begin(), table->end(), [](std::int64_t cost) { return cost != 0; }))
      instance_.problem.edges.push_back({a, b, table});
  }

  std::int64_t in_units(double seconds) const { return units(seconds, instance_.units_per_second); }

  const Graph& graph_;
  const SearchSpace& space_;
  Instance instance_;
  struct {
    int node = 0, choices = 0, result = 0;
  } value_;  ///< the value being added: its producer
  std::map<std::vector<int>, int> shared_sets_;
  std::map<std::array<int, 6>, ilp::Table> direct_tables_;
  std::map<std::array<int, 4>, ilp::Table> copy_tables_;
  std::map<std::array<int, 3>, ilp::Table> reading_tables_;
};

Reader reader_of(const Graph& graph, const SearchSpace& space, const Use& use) {
  const int num_nodes = static_cast<int>(graph.nodes.size()),
            num_updates = static_cast<int>(graph.updates.size());
  if (use.id < num_nodes)
    return {use.id, space.of_node[use.id], use.operand, &space.of(use.id).wanted[use.operand], use};
  if (use.id >= num_nodes + num_updates) return {num_nodes, -1, -1, &kReplicatedOnly, use};
  const int input = graph.values[graph.updates[use.id - num_nodes].input].producer;
  return {input, space.of_node[input], -1, &space.of(input).produced[0], use};
}

}  // namespace

std::vector<std::vector<Reader>> readers_of_values(const Graph& graph, const SearchSpace& space) {
  std::vector<std::vector<Reader>> readers;
  for (const std::vector<Use>& uses : uses_of_values(graph)) {
    readers.emplace_back();
    for (const Use& use : uses) readers.back().push_back(reader_of(graph, space, use));
  }
  return readers;
}

std::int64_t units(double seconds, double units_per_second) {
  return std::isfinite(seconds) ? std::llround(seconds * units_per_second) : ilp::kInfinite;
}

Instance build_instance(const Graph& graph, const SearchSpace& space) {
  return InstanceBuilder(graph, space).run();
}

}  // namespace alpa
