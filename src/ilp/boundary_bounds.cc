// src/ilp/boundary_bounds.cc — a dual bound per cell of a boundary's table, each of which bounds all cells
#include "alpa/ilp/boundary_bounds.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "alpa/base/error.h"
#include "ascent.h"
#include "core.h"
#include "eliminate.h"
#include "reduce.h"
#include "shared_terms.h"

namespace alpa::ilp {
namespace {

/// Sweeps for a cell; the first starts from nothing.
constexpr int kFirstSweeps = 200, kSweeps = 60;

/// Cells of tables looked at before a cell is left between its bounds.
constexpr std::int64_t kClosingWork = 300'000'000;

Deadline no_deadline() { return Deadline(std::numeric_limits<double>::infinity()); }

/// A node of the boundary in the model.
struct End {
  int node = -1;
  std::vector<int> states;  ///< of the problem's node, by those that the model has left
  std::vector<Cost> costs;  ///< without prices for leaving a cell
  std::size_t at = 0;       ///< of its totals in the dual
};

/// Splits an edge between two ends by a copy of the second: the bound of each then stands by itself.
void part_edge(Model& model, int edge) {
  const ModelEdge old = model.edges[edge];
  const int copy = static_cast<int>(model.nodes.size()), size = model.nodes[old.b].size();
  remove_edge(model, edge);
  model.nodes.emplace_back();
  model.nodes.back().costs.assign(static_cast<std::size_t>(size), 0);
  model.nodes.back().normal = true;
  std::vector<Cost> same(static_cast<std::size_t>(size) * size, kNever);
  for (int s = 0; s < size; ++s) same[static_cast<std::size_t>(s) * (size + 1)] = 0;
  add_edge(model, old.a, copy, old.costs);
  add_edge(model, copy, old.b, std::move(same));
}

}  // namespace

struct BoundaryBounds::Impl {
  Model model;
  std::vector<End> ends;
  std::vector<int> sizes;
  std::vector<std::int64_t> lower;
  std::map<std::size_t, Cell> visited;
  std::optional<Dual> dual;
  std::size_t nodes = 0;  ///< of the problem
  std::vector<Table> moves;

  Impl(const Problem& problem, std::span<const int> boundary, std::vector<Table> of_moves)
      : nodes(problem.nodes.size()), moves(std::move(of_moves)) {
    std::size_t cells = 1;
    for (int node : boundary) {
      sizes.push_back(static_cast<int>(problem.nodes[node].costs.size()));
      cells *= static_cast<std::size_t>(sizes.back());
      ends.push_back({node, {}, {}, 0});
      for (int s = 0; s < sizes.back(); ++s) ends.back().states.push_back(s);
    }
    lower.assign(cells, kInfinite);
    try {
      model = build(problem, false, no_deadline());
      reduce_interior();
    } catch (const Contradiction&) {
      ends.clear();
      return;
    }
    part_ends();
    start();
  }

  /// Reductions that keep the ends; states of an end without a partner go.
  void reduce_interior() {
    for (const End& end : ends) model.nodes[end.node].kept = true;
    Options options;
    options.reductions.merge = false;
    for (bool again = true; again;) {
      again = false;
      reduce(model, options, no_deadline());
      for (End& end : ends) {
        const std::vector<int> kept = supported_strategies(model, end.node);
        if (static_cast<int>(kept.size()) == model.nodes[end.node].size()) continue;
        again = true;
        keep_strategies(model, end.node, kept);
        for (std::size_t i = 0; i < kept.size(); ++i) end.states[i] = end.states[kept[i]];
        end.states.resize(kept.size());
      }
    }
  }

  void part_ends() {
    for (int e : live_edges(model))
      if (model.nodes[model.edges[e].a].kept && model.nodes[model.edges[e].b].kept) part_edge(model, e);
  }

  void start() {
    dual.emplace(model);
    std::size_t at = 0;
    for (int i : live_nodes(model)) {
      for (End& end : ends)
        if (end.node == i) end.at = at, end.costs = model.nodes[i].costs;
      at += model.nodes[i].costs.size();
    }
    ascend_for(kFirstSweeps);
  }

  /// Prices all states of the ends but those of a cell.
  void price(const std::vector<int>& cell) {
    Dual::State state = dual->state();
    for (std::size_t e = 0; e < ends.size(); ++e) {
      std::vector<Cost>& costs = model.nodes[ends[e].node].costs;
      for (std::size_t s = 0; s < costs.size(); ++s) {
        const Cost cost = ends[e].costs[s] + move(e, cell[e], static_cast<int>(s));
        const double change = static_cast<double>(cost - costs[s]);
        state.totals[ends[e].at + s] += change;
        state.priced[ends[e].at + s] += change;
        costs[s] = cost;
      }
    }
    dual->restore(state);
  }

  /// Moves that nobody can guess are as dear as the dearest.
  Cost move(std::size_t e, int from, int to) const {
    const std::vector<std::int64_t>& costs = *moves[e];
    const std::int64_t cost =
        costs[static_cast<std::size_t>(ends[e].states[from]) * sizes[e] + ends[e].states[to]];
    if (cost < kInfinite) return cost;
    std::int64_t dearest = 0;
    for (std::int64_t c : costs)
      if (c < kInfinite) dearest = std::max(dearest, c);
    return dearest;
  }

  Ascent ascend_for(int sweeps) {
    double step = kFirstStep;
    Ascent ascent = ascend(model, *dual, sweeps, kNever, step, no_deadline());
    raise(ascent.exact);
    return ascent;
  }

  /// The bound holds for every cell: the excess of its states comes on top, without the prices of leaving.
  void raise(const Dual::Exact& exact) {
    std::vector<int> position(model.nodes.size(), -1);
    int count = 0;
    for (int i : live_nodes(model)) position[i] = count++;
    std::vector<Cost> sums = {exact.bound};
    for (std::size_t e = 0; e < ends.size(); ++e) {
      const std::vector<Cost>& excess = exact.node_excess[position[ends[e].node]];
      std::vector<Cost> longer(sums.size() * static_cast<std::size_t>(sizes[e]), kNever);
      for (std::size_t c = 0; c < sums.size(); ++c)
        for (std::size_t s = 0; s < excess.size(); ++s) {
          const Cost leaving = (model.nodes[ends[e].node].costs[s] - ends[e].costs[s]) << exact.shift;
          if (sums[c] < kNever && excess[s] < kNever)
            longer[c * static_cast<std::size_t>(sizes[e]) + ends[e].states[s]] = sums[c] + excess[s] - leaving;
        }
      sums = std::move(longer);
    }
    const Cost unit = Cost{1} << exact.shift;
    for (std::size_t c = 0; c < sums.size(); ++c) {
      if (sums[c] >= kNever) continue;
      const Cost bound = model.constant + (sums[c] >= 0 ? (sums[c] + unit - 1) / unit : -(-sums[c] / unit));
      lower[c] = lower[c] >= kInfinite ? bound : std::max(lower[c], bound);
    }
  }

  /// Per end, the state of the model; empty: the cell has no choice.
  std::vector<int> states_of(std::size_t cell) const {
    std::vector<int> result(ends.size());
    for (std::size_t e = ends.size(); e-- > 0;) {
      const int state = static_cast<int>(cell % static_cast<std::size_t>(sizes[e]));
      cell /= static_cast<std::size_t>(sizes[e]);
      const auto at = std::find(ends[e].states.begin(), ends[e].states.end(), state);
      if (at == ends[e].states.end()) return {};
      result[e] = static_cast<int>(at - ends[e].states.begin());
    }
    return result;
  }

  bool is_at(const std::vector<int>& choice, const std::vector<int>& states) const {
    for (std::size_t e = 0; e < ends.size(); ++e)
      if (choice[ends[e].node] != states[e]) return false;
    return true;
  }

  void take(Cell& cell, std::vector<int> choice, Cost cost) const {
    replay(model, choice);
    choice.resize(nodes);
    cell.upper = cost;
    cell.choice = std::move(choice);
  }

  void visit(std::size_t index, Cell& cell, bool first) {
    const std::vector<int> states = states_of(index);
    cell.final = states.empty() || lower[index] >= kInfinite;
    if (cell.final) return;
    if (first)
      bound_cell(cell, states);
    else
      close(cell, index, states);
    lower[index] = std::min(lower[index], cell.upper);
    cell.final = !first || lower[index] == cell.upper;
  }

  void bound_cell(Cell& cell, const std::vector<int>& states) {
    price(states);
    const Ascent ascent = ascend_for(kSweeps);
    if (!ascent.choice.empty() && is_at(ascent.choice, states))
      take(cell, ascent.choice, model.constant + ascent.cost);
  }

  /// What the dual bound left open.
  void close(Cell& cell, std::size_t index, const std::vector<int>& states) {
    Model clamped = model;
    try {
      for (std::size_t e = 0; e < ends.size(); ++e) {
        clamped.nodes[ends[e].node].kept = false;
        keep_strategies(clamped, ends[e].node, {states[e]});
      }
      Options options;
      options.reductions.merge = false;
      options.neighbourhoods = false;
      options.use_cbc = false;
      Statistics statistics;
      const Deadline deadline(std::numeric_limits<double>::infinity(), kClosingWork);
      reduce(clamped, options, deadline);
      eliminate(clamped, options.elimination_cells / 32, deadline);
      const CoreSolution core =
          solve_core(clamped, cell.upper < kInfinite ? cell.upper : kNever, {}, options, deadline, statistics);
      if (!core.choice.empty()) {
        std::vector<int> choice = core.choice;
        replay(clamped, choice);
        choice.resize(nodes);
        cell.upper = core.cost, cell.choice = std::move(choice);
      }
      lower[index] = std::max(lower[index], std::min(core.bound, cell.upper));
    } catch (const Contradiction&) {
      lower[index] = cell.upper;
    }
  }
};

BoundaryBounds::BoundaryBounds(const Problem& problem, std::span<const int> boundary, std::vector<Table> moves) {
  validate(problem);
  require(!problem.usage_limit, "BoundaryBounds: the problem has a usage limit, which no table can hold");
  impl_ = std::make_unique<Impl>(problem, boundary, std::move(moves));
}

BoundaryBounds::~BoundaryBounds() = default;

const std::vector<int>& BoundaryBounds::sizes() const { return impl_->sizes; }
const std::vector<std::int64_t>& BoundaryBounds::lower() const { return impl_->lower; }
const std::map<std::size_t, BoundaryBounds::Cell>& BoundaryBounds::visited() const { return impl_->visited; }

const BoundaryBounds::Cell& BoundaryBounds::visit(std::size_t cell) {
  const auto [place, first] = impl_->visited.try_emplace(cell);
  if (!place->second.final) impl_->visit(cell, place->second, first);
  return place->second;
}

}  // namespace alpa::ilp
