// A dual bound per cell of a boundary's table, each of which bounds all cells
#include "src/ilp/search/boundary_bounds.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/ilp/eliminate/eliminate.h"
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/reduce/presolve.h"
#include "src/ilp/search/ascent.h"
#include "src/ilp/search/core.h"

namespace alpa::ilp {
namespace {

Deadline no_deadline() { return Deadline(kInfinity); }

/// A node of the boundary in the model.
struct End {
  int node = -1;
  std::vector<int> states;  ///< of the problem's node, by those that the model has left
  std::vector<Cost> costs;  ///< without prices for leaving a cell
  std::size_t at = 0;       ///< of its totals in the dual
  int position = 0;         ///< among the model's live nodes
};

/// Splits an edge between two ends by a copy of the second: the bounds of
/// both are then independent.
void part_edge(Model& model, int edge) {
  const ModelEdge old = model.edges[edge];
  const int size = model.nodes[old.b].size();
  remove_edge(model, edge);
  const int copy = add_node(model, static_cast<std::size_t>(size));
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
  std::map<std::size_t, Cell> known;
  std::optional<Dual> dual;  ///< none: no cell has a choice
  /// Never passes, but counts work.
  Deadline clock{kInfinity, std::numeric_limits<std::int64_t>::max()};
  std::size_t nodes = 0;  ///< of the problem
  std::vector<Table> moves;
  Cost dearest = 1;                                            ///< of the moves
  std::map<BoundaryPrices, BoundaryPrices> priced;             ///< results of `bound`
  std::map<std::vector<Tie>, BoundaryPrices> repeated_prices;  ///< and of `bound_repeated`

  Impl(const Problem& problem, std::span<const int> boundary, std::vector<Table> of_moves)
      : nodes(problem.nodes.size()), moves(std::move(of_moves)) {
    std::size_t cells = 1;
    for (int node : boundary) {
      sizes.push_back(static_cast<int>(problem.nodes[node].costs.size()));
      cells *= static_cast<std::size_t>(sizes.back());
      ends.push_back({node, {}, {}, 0, 0});
      for (int s = 0; s < sizes.back(); ++s) ends.back().states.push_back(s);
    }
    lower.assign(cells, kInfinite);
    for (const Table& table : moves)
      for (std::int64_t cost : *table)
        if (cost < kInfinite) dearest = std::max(dearest, cost);
    try {
      model = build(problem, false, no_deadline());
      reduce_interior();
      part_ends();
      start();
    } catch (const Contradiction&) {
    }
  }

  /// Reductions that keep the ends; states of an end without a partner go.
  void reduce_interior() {
    for (const End& end : ends) model.nodes[end.node].kept = true;
    Options options;
    options.methods.presolve.merge = false;
    for (bool again = true; again;) {
      again = false;
      presolve(model, options, no_deadline());
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
      if (model.nodes[model.edges[e].a].kept && model.nodes[model.edges[e].b].kept)
        part_edge(model, e);
  }

  void start() {
    dual.emplace(model);
    std::size_t at = 0;
    int position = 0;
    for (int i : live_nodes(model)) {
      for (End& end : ends)
        if (end.node == i) end.at = at, end.position = position, end.costs = model.nodes[i].costs;
      at += model.nodes[i].costs.size();
      ++position;
    }
    ascend_for(kTuning.boundary_bounds.first_sweeps);
  }

  /// Puts these prices on the ends.
  template <class PriceOf>
  void price(const PriceOf& price_of) {
    Dual::State state = dual->state();
    for (std::size_t e = 0; e < ends.size(); ++e) {
      std::vector<Cost>& costs = model.nodes[ends[e].node].costs;
      for (std::size_t s = 0; s < costs.size(); ++s) {
        const Cost cost = ends[e].costs[s] + price_of(e, s);
        const double change = static_cast<double>(cost - costs[s]);
        state.totals[ends[e].at + s] += change;
        state.priced[ends[e].at + s] += change;
        costs[s] = cost;
      }
    }
    dual->restore(state);
  }

  /// Moves without a known price cost as much as the most expensive one.
  Cost move(std::size_t e, int from, std::size_t to) const {
    const std::size_t row = static_cast<std::size_t>(ends[e].states[from]) * sizes[e];
    return std::min(dearest, (*moves[e])[row + static_cast<std::size_t>(ends[e].states[to])]);
  }

  /// Returns the prices that neighbours add to theirs.
  BoundaryPrices ascend_for(int sweeps) {
    Ascent ascent = ascend(model, *dual, sweeps, kNever, 0, kTuning.ascent.first_step, clock);
    for (int k = 0; k < kTuning.boundary_bounds.handings; ++k) dual->hand_on();
    ascent.exact = dual->exact();
    std::vector<std::vector<Cost>> excess = excesses(ascent.exact);
    raise(ascent.exact.bound, excess, ascent.exact.shift);
    if (!ascent.choice.empty()) keep(ascent.choice);
    return prices_of(excess, ascent.exact.shift);
  }

  /// Per end and state: its excess over the bound, without the prices.
  std::vector<std::vector<Cost>> excesses(const Dual::Exact& exact) const {
    std::vector<std::vector<Cost>> result;
    for (const End& end : ends) {
      result.push_back(exact.node_excess[end.position]);
      for (std::size_t s = 0; s < result.back().size(); ++s)
        if (result.back()[s] < kNever)
          result.back()[s] -=
              (model.nodes[end.node].costs[s] - end.costs[s]) * (Cost{1} << exact.shift);
    }
    return result;
  }

  /// The bound holds for every cell: the excess of its states comes on top.
  void raise(Cost bound, const std::vector<std::vector<Cost>>& excess, int shift) {
    std::vector<Cost> sums = {bound};
    for (std::size_t e = 0; e < ends.size(); ++e) {
      const auto size = static_cast<std::size_t>(sizes[e]);
      std::vector<Cost> longer(sums.size() * size, kNever);
      for (std::size_t c = 0; c < sums.size(); ++c)
        for (std::size_t s = 0; s < excess[e].size(); ++s)
          longer[c * size + static_cast<std::size_t>(ends[e].states[s])] =
              plus(sums[c], excess[e][s]);
      sums = std::move(longer);
    }
    const Cost unit = Cost{1} << shift;
    for (std::size_t c = 0; c < sums.size(); ++c) {
      if (sums[c] >= kNever) continue;
      const Cost cost =
          model.constant + (sums[c] >= 0 ? (sums[c] + unit - 1) / unit : -(-sums[c] / unit));
      lower[c] = lower[c] >= kInfinite ? cost : std::max(lower[c], cost);
    }
  }

  /// In costs, for all strategies of the problem's nodes.
  BoundaryPrices prices_of(const std::vector<std::vector<Cost>>& excess, int shift) const {
    BoundaryPrices prices;
    for (std::size_t e = 0; e < ends.size(); ++e) {
      prices.emplace_back(static_cast<std::size_t>(sizes[e]), dearest);
      for (std::size_t s = 0; s < excess[e].size(); ++s)
        if (excess[e][s] < kNever)
          prices[e][static_cast<std::size_t>(ends[e].states[s])] = excess[e][s] >> shift;
    }
    return prices;
  }

  BoundaryPrices bound(const BoundaryPrices& prices) {
    BoundaryPrices& known_prices = priced[prices];
    if (!known_prices.empty() || !dual) return known_prices;
    price([&](std::size_t e, std::size_t s) {
      return prices[e][static_cast<std::size_t>(ends[e].states[s])];
    });
    return known_prices = ascend_for(kTuning.boundary_bounds.first_sweeps);
  }

  /// 0 for equal states, the largest price for others.
  std::vector<Cost> tie_costs(const Tie& tie) const {
    std::vector<Cost> costs;
    for (int p : ends[tie.first].states)
      for (int q : ends[tie.second].states) costs.push_back(tie.partner[p] == q ? 0 : dearest);
    return costs;
  }

  /// The bound of a part that is repeated (its end is its own beginning),
  /// without the edges that tie both.
  BoundaryPrices bound_repeated(std::span<const Tie> ties) {
    BoundaryPrices& known_prices = repeated_prices[{ties.begin(), ties.end()}];
    if (!known_prices.empty() || !dual) return known_prices;
    price([](std::size_t, std::size_t) { return Cost{0}; });
    Model repeated = model;
    const std::size_t edges = live_edges(model).size();
    for (const Tie& tie : ties)
      add_edge(repeated, ends[tie.first].node, ends[tie.second].node, tie_costs(tie));
    Dual of_repeated(repeated);
    Ascent ascent = ascend(repeated, of_repeated, kTuning.boundary_bounds.first_sweeps, kNever, 0,
                           kTuning.ascent.first_step, clock);
    for (int k = 0; k < kTuning.boundary_bounds.handings; ++k) of_repeated.hand_on();
    ascent.exact = of_repeated.exact();
    std::vector<std::vector<Cost>> excess = excesses(ascent.exact);
    Cost bound = ascent.exact.bound;
    for (std::size_t t = 0; t < ties.size(); ++t)
      untie(ties[t], ascent.exact, edges + t, bound, excess);
    raise(bound, excess, ascent.exact.shift);
    if (!ascent.choice.empty()) keep(ascent.choice);
    return known_prices = prices_of(excess, ascent.exact.shift);
  }

  /// Takes a tie's edge, number `edge` of the dual, out of a bound: its
  /// messages and its line minima.
  void untie(const Tie& tie, const Dual::Exact& exact, std::size_t edge, Cost& bound,
             std::vector<std::vector<Cost>>& excess) const {
    const bool in_order = ends[tie.first].node < ends[tie.second].node;
    const std::vector<Cost>&first = (in_order ? exact.message_a : exact.message_b)[edge],
          &second = (in_order ? exact.message_b : exact.message_a)[edge];
    const std::vector<Cost> costs = tie_costs(tie);
    std::vector<Cost> rows(first.size(), kNever), columns(second.size(), kNever);
    for (std::size_t p = 0; p < rows.size(); ++p)
      for (std::size_t q = 0; q < columns.size(); ++q) {
        const Cost cost = (costs[p * columns.size() + q] << exact.shift) - first[p] - second[q];
        rows[p] = std::min(rows[p], cost), columns[q] = std::min(columns[q], cost);
      }
    bound += *std::min_element(rows.begin(), rows.end());
    for (std::size_t p = 0; p < rows.size(); ++p)
      if (excess[tie.first][p] < kNever) excess[tie.first][p] -= rows[p] + first[p];
    for (std::size_t q = 0; q < columns.size(); ++q)
      if (excess[tie.second][q] < kNever) excess[tie.second][q] -= columns[q] + second[q];
  }

  /// Per end, the state of the model; nothing if the cell has no choice.
  std::optional<std::vector<int>> states_of(std::size_t cell) const {
    std::vector<int> result(ends.size());
    for (std::size_t e = ends.size(); e-- > 0;) {
      const int state = static_cast<int>(cell % static_cast<std::size_t>(sizes[e]));
      cell /= static_cast<std::size_t>(sizes[e]);
      const auto at = std::find(ends[e].states.begin(), ends[e].states.end(), state);
      if (at == ends[e].states.end()) return std::nullopt;
      result[e] = static_cast<int>(at - ends[e].states.begin());
    }
    return result;
  }

  std::size_t cell_of(const std::vector<int>& choice) const {
    std::size_t cell = 0;
    for (std::size_t e = 0; e < ends.size(); ++e)
      cell = cell * static_cast<std::size_t>(sizes[e]) +
             static_cast<std::size_t>(ends[e].states[choice[ends[e].node]]);
    return cell;
  }

  /// Keeps a choice of the model's live nodes, at what it costs without prices.
  void keep(std::vector<int> choice) {
    Cost cost = plus(model.constant, ilp::price(model, choice));
    if (cost >= kNever) return;
    for (const End& end : ends)
      cost -= model.nodes[end.node].costs[choice[end.node]] - end.costs[choice[end.node]];
    Cell& cell = known[cell_of(choice)];
    if (cost >= cell.upper) return;
    postsolve(model, choice);
    choice.resize(nodes);
    cell.upper = cost;
    cell.choice = std::move(choice);
  }

  void visit(std::size_t index) {
    Cell& cell = known[index];
    if (cell.final) return;
    const auto states = states_of(index);
    cell.final = !dual || !states || lower[index] >= std::min(kInfinite, cell.upper);
    if (cell.final) return;
    if (cell.visits++ == 0) {
      price([&](std::size_t e, std::size_t s) { return move(e, (*states)[e], s); });
      ascend_for(kTuning.boundary_bounds.sweeps);
    } else {
      close(cell, index, *states);
      cell.final = true;
    }
    cell.final |= lower[index] == cell.upper;
  }

  /// Cells that the dual bound left open.
  void close(Cell& cell, std::size_t index, const std::vector<int>& states) {
    price([](std::size_t, std::size_t) { return Cost{0}; });
    Model clamped = model;
    try {
      for (std::size_t e = 0; e < ends.size(); ++e) {
        clamped.nodes[ends[e].node].kept = false;
        keep_strategies(clamped, ends[e].node, {states[e]});
      }
      Options options;
      options.methods.presolve.merge = false;
      options.methods.large_neighbourhood_search = false;
      options.methods.use_cbc = false;
      Statistics statistics;
      const Deadline deadline(kInfinity,
                              cell.upper < kInfinite ? kTuning.boundary_bounds.closing_work : 0);
      presolve(clamped, options, deadline);
      eliminate(clamped, options.methods.elimination_cells / kTuning.eliminate.first_part,
                deadline);
      CoreSolution core = solve_core(clamped, cell.upper < kInfinite ? cell.upper : kNever, {},
                                     options, deadline, statistics);
      if (cell.upper < kInfinite) clock.spend(deadline.elapsed() * kCellsPerSecond);
      lower[index] = std::max(lower[index], std::min(core.bound, core.cost));
      if (core.choice.empty()) return;
      postsolve(clamped, core.choice);
      core.choice.resize(nodes);
      cell.upper = core.cost;
      cell.choice = std::move(core.choice);
    } catch (const Contradiction&) {
      lower[index] = cell.upper;
    }
  }
};

BoundaryBounds::BoundaryBounds(const Problem& problem, std::span<const int> boundary,
                               std::vector<Table> moves) {
  validate(problem);
  require(!problem.usage_limit,
          "BoundaryBounds: the problem has a usage limit, which no table can hold");
  impl_ = std::make_unique<Impl>(problem, boundary, std::move(moves));
}

BoundaryBounds::~BoundaryBounds() = default;

const std::vector<std::int64_t>& BoundaryBounds::lower() const { return impl_->lower; }
const std::map<std::size_t, BoundaryBounds::Cell>& BoundaryBounds::known() const {
  return impl_->known;
}

std::int64_t BoundaryBounds::work() const {
  return static_cast<std::int64_t>(impl_->clock.elapsed() * kCellsPerSecond);
}

BoundaryPrices BoundaryBounds::bound(const BoundaryPrices& prices) { return impl_->bound(prices); }

BoundaryPrices BoundaryBounds::bound_repeated(std::span<const Tie> ties) {
  return impl_->bound_repeated(ties);
}

const BoundaryBounds::Cell& BoundaryBounds::visit(std::size_t cell) {
  impl_->visit(cell);
  return impl_->known.at(cell);
}

}  // namespace alpa::ilp
