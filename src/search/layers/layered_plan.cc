// Combines the tables of all parts into a plan
#include "src/search/layers/layered_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/layers.h"
#include "src/ir/subgraph.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/layers/layer_table.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/tuning.h"

namespace alpa::intra_op {
namespace {

/// A layer, or what belongs to none.
struct LayerPart {
  int layer = -1;
  Subgraph sub;
  std::shared_ptr<const LayerTable> table;
  std::vector<int> axes;  ///< per axis of the table, the node of the joint problem
};

/// A node of the joint problem: its states are specs of a value.
struct JointEnd {
  int node = -1;
  std::vector<ShardingSpec> specs;
  int phase = 0, runs = 1, copy_runs = 1;  ///< of a use
  bool inside = false;                     ///< as in TableAxis
};

/// Per value of `graph`, how it meets the parts; scalar inputs are in all of them.
std::vector<BoundaryKind> boundaries_of(const Graph& graph) {
  std::vector<std::set<int>> reading(graph.values.size());
  for (const Node& node : graph.nodes)
    for (int value : node.operands) reading[value].insert(node.layer);
  for (const Update& update : graph.updates)
    reading[update.value].insert(graph.producer(update.input).layer);
  for (const Metric& metric : graph.metrics)
    reading[metric.value].insert(graph.producer(metric.value).layer);
  std::vector<BoundaryKind> boundaries(graph.values.size(), BoundaryKind::none);
  for (std::size_t v = 0; v < reading.size(); ++v) {
    const Input* input = find_input(graph, static_cast<int>(v));
    if (reading[v].empty() || (input && input->kind == InputKind::scalar)) continue;
    const bool inside =
        reading[v].size() == 1 && reading[v].count(graph.producer(static_cast<int>(v)).layer);
    if (!inside) boundaries[v] = reading[v].size() > 1 ? BoundaryKind::open : BoundaryKind::closed;
  }
  return boundaries;
}

class LayeredProblem {
 public:
  LayeredProblem(const Graph& graph, const AutoShardOptions& options, MeshFacts& facts,
                 const LayeringLimits& limits)
      : graph_(graph),
        options_(options),
        facts_(facts),
        limits_(limits),
        shares_(options.part.loops ? *options.part.loops : loop_shares(graph)),
        boundaries_(boundaries_of(graph)) {}

  std::variant<LayeredPlan, LayerTooLarge> run() {
    LayeredPlan result;
    std::set<const LayerTable*> different;
    const LayerCuts cuts(graph_);
    for (int layer : cuts.layers()) {
      if (is_over()) return too_large_;
      parts_.push_back({layer, cuts.cut(layer, layer), nullptr, {}});
      if (!find_table(parts_.back(), result.new_tables)) return too_large_;
      different.insert(parts_.back().table.get());
    }
    result.parts = static_cast<int>(parts_.size());
    result.tables = static_cast<int>(different.size());
    for (LayerPart& part : parts_) add_own_ends(part);
    for (LayerPart& part : parts_) add_places(part);
    for (const auto& [value, readers] : readers_) add_copies(value, readers);
    if (!search()) return too_large_;
    result.plan = plan_of();
    result.new_cells = new_cells_;
    return result;
  }

  std::int64_t work() const { return work_; }

 private:
  /// Then says so in `too_large_`.
  bool is_over() {
    too_large_.is_unfinished = work_ > limits_.work || (limits_.is_over && limits_.is_over());
    return too_large_.is_unfinished;
  }

  /// The result of `ask` on the part's bounds; counts its work.
  template <class Ask>
  auto counted(std::size_t part, const Ask& ask) {
    ilp::BoundaryBounds& bounds = *parts_[part].table->bounds;
    const std::int64_t before = bounds.work();
    auto found = ask(bounds);
    work_ += bounds.work() - before;
    return found;
  }

  bool find_table(LayerPart& part, int& new_tables) {
    PartView view{part.sub.graph, {}, {}};
    for (int value : part.sub.values) view.boundaries.push_back(boundaries_[value]);
    for (std::size_t n = 0; n < part.sub.nodes.size(); ++n)
      view.shares.push_back(part.sub.graph.nodes[n].op == &ops::input ? LoopShare{}
                                                                      : shares_[part.sub.nodes[n]]);
    const AutoShardOptions own = options_for(part);
    auto& known = facts_.tables[table_key(view, own)];
    if (!known) {
      auto table = layer_table(view, own, facts_, limits_.most_cells, work_);
      if (const auto* failed = std::get_if<ilp::TableTooLarge>(&table)) {
        too_large_ = {part.layer, failed->cells};
        return false;
      }
      known = std::make_shared<const LayerTable>(std::get<LayerTable>(std::move(table)));
      ++new_tables;
    }
    if (limits_.exact && !known->exact) {
      too_large_ = {part.layer, 0};
      return false;
    }
    part.table = known;
    units_ = units_ == 0 ? known->units_per_second : units_;
    require(units_ == known->units_per_second,
            "plan_by_layers: the costs of layer {} are too large for the unit of the other "
            "layers' costs; use auto_shard",
            part.layer);
    return true;
  }

  /// With the pins of the part's own nodes, by their numbers there.
  AutoShardOptions options_for(const LayerPart& part) const {
    AutoShardOptions options = options_;
    options.allowed.pins.clear();
    for (const PinnedNode& pin : options_.allowed.pins)
      for (std::size_t n = 0; n < part.sub.nodes.size(); ++n)
        if (part.sub.nodes[n] == pin.node && graph_.nodes[pin.node].layer == part.layer)
          options.allowed.pins.push_back({static_cast<int>(n), pin.spec});
    return options;
  }

  int add_node(std::size_t states) {
    problem_.nodes.push_back({std::vector<std::int64_t>(states, 0), {}});
    return static_cast<int>(problem_.nodes.size()) - 1;
  }

  /// Nodes for the specs in which a part leaves values, and which its uses of open values want.
  void add_own_ends(LayerPart& part) {
    part.axes.assign(part.table->axes.size(), -1);
    for (std::size_t a = 0; a < part.axes.size(); ++a) {
      const TableAxis& axis = part.table->axes[a];
      const int value = part.sub.values[axis.value];
      const bool boundary = graph_.producer(value).layer != part.layer;
      if (boundary && !axis.use) continue;
      JointEnd end{add_node(axis.specs.size()), axis.specs};
      part.axes[a] = end.node;
      if (axis.use)
        end.phase = axis.use->phase, end.runs = axis.use->runs, end.copy_runs = axis.use->copy_runs,
        end.inside = axis.inside;
      if (axis.use)
        readers_[value].push_back(std::move(end));
      else
        left_.emplace(value, std::move(end));
    }
  }

  const JointEnd& left_of(int value) const {
    const auto at = left_.find(value);
    require(
        at != left_.end(),
        "plan_by_layers: several layers read value %{}, which no layer computes; use auto_shard",
        value);
    return at->second;
  }

  void add_places(LayerPart& part) {
    std::vector<std::vector<int>>
        places;  // per axis, of the table's specs by states of the joint problem's node
    for (std::size_t a = 0; a < part.axes.size(); ++a) {
      const TableAxis& axis = part.table->axes[a];
      places.emplace_back();
      if (part.axes[a] >= 0) {
        for (std::size_t s = 0; s < axis.specs.size(); ++s)
          places.back().push_back(static_cast<int>(s));
        continue;
      }
      const JointEnd& left = left_of(part.sub.values[axis.value]);
      part.axes[a] = left.node;
      for (const ShardingSpec& spec : left.specs)
        places.back().push_back(place_of(spec, axis, part));
    }
    places_.push_back(std::move(places));
  }

  static int place_of(const ShardingSpec& spec, const TableAxis& axis, const LayerPart& part) {
    const auto at = std::find(axis.specs.begin(), axis.specs.end(), spec);
    require(at != axis.specs.end(),
            "plan_by_layers: value %{} may enter layer {} as {}, a spec that no input can have; "
            "begin the layer elsewhere",
            part.sub.values[axis.value], part.layer, to_string(spec));
    return static_cast<int>(at - axis.specs.begin());
  }

  /// These costs at these places of every axis of a table.
  static std::vector<std::int64_t> selected(const LayerTable& table,
                                            const std::vector<std::int64_t>& costs,
                                            const std::vector<std::vector<int>>& places) {
    std::vector<std::int64_t> cells = {0};  // first their places, axis by axis
    for (std::size_t a = 0; a < places.size(); ++a) {
      std::vector<std::int64_t> longer;
      longer.reserve(cells.size() * places[a].size());
      for (std::int64_t before : cells)
        for (int place : places[a]) longer.push_back(before * table.sizes[a] + place);
      cells = std::move(longer);
    }
    for (std::int64_t& cell : cells) cell = costs[static_cast<std::size_t>(cell)];
    return cells;
  }

  /// A loop is cut where it wants another spec of a value than it makes.
  void add_cut(int value, const JointEnd& from, const JointEnd& reader) {
    std::vector<std::int64_t> costs;
    for (const ShardingSpec& have : from.specs)
      for (const ShardingSpec& wanted : reader.specs)
        costs.push_back(units(
            reader.runs * cut_seconds(graph_.type(value), have, wanted, facts_.mesh, facts_.model),
            units_));
    problem_.edges.push_back({from.node, reader.node, ilp::table(std::move(costs))});
  }

  /// Copies of an open value that uses in several parts need are paid once per phase and spec.
  void add_copies(int value, const std::vector<JointEnd>& readers) {
    const JointEnd& from = left_of(value);
    for (const JointEnd& reader : readers)
      if (reader.inside) add_cut(value, from, reader);
    for (int phase : {0, 1}) {
      std::vector<const JointEnd*> wanting;
      for (const JointEnd& reader : readers)
        if (reader.phase == phase) wanting.push_back(&reader);
      if (!wanting.empty()) add_shared(value, from, wanting);
    }
  }

  void add_shared(int value, const JointEnd& from, const std::vector<const JointEnd*>& wanting) {
    std::vector<ShardingSpec> wanted;
    ilp::SharedCost shared{{from.node, {}}, {}, static_cast<int>(from.specs.size()), 0, nullptr};
    for (int s = 0; s < shared.rows; ++s) shared.source.classes.push_back(s);
    for (const JointEnd* reader : wanting) {
      shared.readers.push_back({reader->node, {}});
      for (const ShardingSpec& spec : reader->specs) {
        const auto at = std::find(wanted.begin(), wanted.end(), spec);
        shared.readers.back().classes.push_back(static_cast<int>(at - wanted.begin()));
        if (at == wanted.end()) wanted.push_back(spec);
      }
    }
    shared.columns = static_cast<int>(wanted.size());
    std::vector<std::int64_t> costs;
    for (double seconds : facts_.prices.seconds(graph_.type(value), from.specs, wanted))
      costs.push_back(units(wanting.front()->copy_runs * seconds, units_));
    shared.costs = ilp::table(std::move(costs));
    problem_.shared.push_back(std::move(shared));
  }

  /// The least that the joint problem costs, with tables that say for each
  /// part what its cells cost.
  template <class CostsOf>
  std::optional<ilp::BoundaryTable> joined(const CostsOf& costs_of) {
    std::map<std::pair<const LayerTable*, std::vector<std::vector<int>>>, ilp::Table> known;
    std::vector<ilp::JointCosts> joint;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const LayerTable& table = *parts_[p].table;
      ilp::Table& costs = known[{&table, places_[p]}];
      if (!costs) costs = ilp::table(selected(table, costs_of(table), places_[p]));
      joint.push_back({parts_[p].axes, costs});
    }
    auto result = ilp::eliminate_to(problem_, {}, limits_.most_cells, joint, &work_);
    if (auto* table = std::get_if<ilp::BoundaryTable>(&result)) return std::move(*table);
    too_large_ = {-2, std::get<ilp::TableTooLarge>(result).cells};
    return std::nullopt;
  }

  /// The place of each axis's spec in the table of a part.
  std::vector<int> specs_of(std::size_t part, const std::vector<int>& choice) const {
    std::vector<int> specs;
    for (std::size_t a = 0; a < parts_[part].axes.size(); ++a)
      specs.push_back(places_[part][a][choice[parts_[part].axes[a]]]);
    return specs;
  }

  /// Cells on the cheapest path through the lower bounds are visited until no bound of it can rise.
  bool search() {
    price_boundaries();
    for (;;) {
      if (is_over()) return false;
      const auto lower = joined([](const LayerTable& table) { return table.lower(); });
      if (!lower) return false;
      require_plan(lower->costs[0]);
      lower_ = lower->costs[0];
      too_large_.lower_bound_seconds = static_cast<double>(lower_) / units_;
      if (too_large_.lower_bound_seconds >= limits_.cutoff_seconds) {
        too_large_.is_unfinished = true;
        return false;
      }
      if (!visit_cells(lower->choice({}))) break;
    }
    if (is_over()) return false;
    const auto upper = joined(uppers);
    if (!upper) return false;
    require_plan(upper->costs[0]);
    cost_ = upper->costs[0];
    choice_ = upper->choice({});
    return true;
  }

  /// Bounds for parts that know what their neighbours pay at their boundary: rows of equal parts
  /// first, then the others along the layers.
  void price_boundaries() {
    prices_.assign(parts_.size(), {});
    meeting_.assign(problem_.nodes.size(), {});
    for (std::size_t p = 0; p < parts_.size(); ++p)
      for (std::size_t a = 0; a < parts_[p].axes.size(); ++a)
        meeting_[static_cast<std::size_t>(parts_[p].axes[a])].emplace_back(p, a);
    for (std::size_t p = 0; p + 1 < parts_.size(); ++p)
      if (!parts_[p].table->exact && parts_[p].table == parts_[p + 1].table) {
        prices_[p] = counted(
            p, [&](ilp::BoundaryBounds& bounds) { return bounds.bound_repeated(ties_between(p)); });
        prices_[p + 1] = prices_[p];
      }
    std::vector<int> others;
    for (std::size_t k = 1; k <= parts_.size(); ++k) {
      const std::size_t p =
          k % parts_.size();  // what belongs to no layer is the first part, and comes last
      if (!parts_[p].table->exact && prices_[p].empty()) others.push_back(static_cast<int>(p));
    }
    for (int round = 0; round < search::kTuning.layered_plan.pricing_rounds; ++round)
      for (int p : others) {
        if (is_over()) return;
        prices_[p] = counted(static_cast<std::size_t>(p), [&](ilp::BoundaryBounds& bounds) {
          return bounds.bound(prices_at(static_cast<std::size_t>(p)));
        });
      }
  }

  std::vector<ilp::BoundaryBounds::Tie> ties_between(std::size_t part) const {
    std::vector<ilp::BoundaryBounds::Tie> ties;
    for (std::size_t a = 0; a < parts_[part].axes.size(); ++a)
      for (std::size_t b = 0; b < parts_[part + 1].axes.size(); ++b)
        if (parts_[part].axes[a] == parts_[part + 1].axes[b]) ties.push_back(tie_of(part, a, b));
    return ties;
  }

  /// Prices at this part's boundary from the other parts whose prices are known.
  ilp::BoundaryPrices prices_at(std::size_t part) const {
    ilp::BoundaryPrices sum;
    for (std::size_t a = 0; a < parts_[part].axes.size(); ++a) {
      sum.emplace_back(static_cast<std::size_t>(parts_[part].table->sizes[a]), 0);
      for (const auto& [q, b] : meeting_[static_cast<std::size_t>(parts_[part].axes[a])]) {
        if (q == part || prices_[q].empty()) continue;
        for (std::size_t s = 0; s < places_[part][a].size(); ++s)
          sum.back()[static_cast<std::size_t>(places_[part][a][s])] +=
              prices_[q][b][static_cast<std::size_t>(places_[q][b][s])];
      }
    }
    return sum;
  }

  /// Axis `a` of a part and axis `b` of the next, which are one node of the joint problem.
  ilp::BoundaryBounds::Tie tie_of(std::size_t part, std::size_t a, std::size_t b) const {
    std::vector<int> partner(static_cast<std::size_t>(parts_[part].table->sizes[a]), -1);
    for (std::size_t s = 0; s < places_[part][a].size(); ++s)
      partner[static_cast<std::size_t>(places_[part][a][s])] = places_[part + 1][b][s];
    return {static_cast<int>(a), static_cast<int>(b), std::move(partner)};
  }

  /// True if the way became dearer, or may when its cells are visited again.
  bool visit_cells(const std::vector<int>& choice) {
    const std::int64_t before = lower_along(choice);
    bool again = false;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].table->exact) continue;
      if (is_over()) return false;
      const ilp::BoundaryBounds& bounds = *parts_[p].table->bounds;
      const std::size_t cell = parts_[p].table->index(specs_of(p, choice));
      const auto known = bounds.known().find(cell);
      new_cells_ += known == bounds.known().end() || !known->second.final;
      again |= counted(p, [&](ilp::BoundaryBounds& b) { return !b.visit(cell).final; });
    }
    return again || lower_along(choice) != before;
  }

  std::int64_t lower_along(const std::vector<int>& choice) const {
    std::int64_t sum = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      sum += parts_[p].table->lower()[parts_[p].table->index(specs_of(p, choice))];
    return sum;
  }

  static std::vector<std::int64_t> uppers(const LayerTable& table) {
    if (table.exact) return table.exact->costs;
    std::vector<std::int64_t> costs(table.lower().size(), ilp::kInfinite);
    for (const auto& [index, cell] : table.bounds->known()) costs[index] = cell.upper;
    return costs;
  }

  void require_plan(std::int64_t cost) const {
    require(cost < ilp::kInfinite,
            "method {}: no plan on a {} mesh satisfies the options; allow all_gather and "
            "all_to_all, or forbid less",
            options_.method, shape_text(facts_.mesh));
  }

  ShardingPlan plan_of() {
    std::vector<Strategy> strategies(graph_.nodes.size());
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const LayerPart& part = parts_[p];
      const std::vector<Strategy> chosen = part.table->chosen(specs_of(p, choice_));
      for (std::size_t n = 0; n < chosen.size(); ++n) {
        const int node = part.sub.nodes[n];
        const Input* input = find_input(part.sub.graph, part.sub.graph.nodes[n].results[0]);
        const bool found = input && input->kind == InputKind::boundary;
        if (!found || graph_.nodes[node].layer == part.layer) strategies[node] = chosen[n];
      }
    }
    const GraphFacts graph(graph_, &facts_.rules, &shares_, copies_state_once(options_));
    ShardingPlan plan =
        plan_of_strategies(graph, facts_.mesh, std::move(strategies), facts_.prices);
    plan.method = options_.method;
    plan.cost = evaluate(plan, graph, facts_.model);
    check_cost(plan.cost, cost_);
    plan.cost.lower_bound_seconds =
        lower_ == cost_
            ? plan.cost.objective_seconds
            : std::min(plan.cost.objective_seconds, static_cast<double>(lower_) / units_);
    return plan;
  }

  /// The plan's own price must be that of the tables, up to the rounding of
  /// every cost to whole units.
  void check_cost(const PlanCost& cost, std::int64_t joined) const {
    const double sum = static_cast<double>(joined) / units_;
    const double terms = 8.0 * static_cast<double>(graph_.nodes.size() + graph_.values.size());
    invariant(std::abs(sum - cost.objective_seconds) <= terms / units_ + 1e-9 * sum,
              "the plan costs {} s but the tables of its layers {} s", cost.objective_seconds, sum);
  }

  const Graph& graph_;
  const AutoShardOptions& options_;
  MeshFacts& facts_;
  const LayeringLimits limits_;
  const std::vector<LoopShare> shares_;
  const std::vector<BoundaryKind> boundaries_;
  std::vector<LayerPart> parts_;
  std::vector<std::vector<std::vector<int>>> places_;  ///< per part and axis, see add_places
  LayerTooLarge too_large_;
  double units_ = 0;
  ilp::Problem problem_;
  std::int64_t lower_ = 0, cost_ = 0;  ///< of the best choice of the joint problem
  std::vector<int> choice_;
  int new_cells_ = 0;
  std::int64_t work_ = 0;
  /// per part, what it pays at its boundary; empty: not known
  std::vector<ilp::BoundaryPrices> prices_;
  /// per node of the joint problem, the parts and their axes that meet there
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> meeting_;
  std::map<int, JointEnd> left_;                  ///< by value: how its part leaves it
  std::map<int, std::vector<JointEnd>> readers_;  ///< by open value: how its uses want it
};

}  // namespace

std::variant<LayeredPlan, LayerTooLarge> plan_by_layers(const Graph& graph, const DeviceMesh& mesh,
                                                        const cost::CostModel& model,
                                                        const AutoShardOptions& options,
                                                        PlanningCache& cache,
                                                        const LayeringLimits& limits) {
  require(options.allowed.leaves_axes_free(),
          "method {}: it splits the batch, but a single layer has no batch inputs to tell that "
          "dimension; use auto_shard",
          options.method);
  const Graph layered = with_layers(graph);
  LayeredProblem problem(layered, options, cache.of(mesh, allowed_model(model, options)), limits);
  auto result = problem.run();
  std::visit([&](auto& found) { found.work = problem.work(); }, result);
  return result;
}

}  // namespace alpa::intra_op
