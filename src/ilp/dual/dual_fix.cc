// The proven side of the dual bound: messages in whole numbers, and what the bound excludes
#include <algorithm>
#include <cmath>

#include "src/ilp/dual/dual.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

constexpr int kDualBits = 24;  // multipliers are whole numbers of 2^-24 scaled costs per unit
/// Largest scaled message, and price of usages that no row has room for: sums of hundreds do not
/// overflow. Any messages give a bound, and so do lower prices.
constexpr Cost kMostScaled = Cost{1} << 55;

std::vector<Cost> rounded_messages(const double* message, std::size_t size, int shift) {
  constexpr auto most = static_cast<double>(kMostScaled);
  std::vector<Cost> result;
  for (std::size_t s = 0; s < size; ++s)
    result.push_back(std::llround(std::clamp(std::ldexp(message[s], shift), -most, most)));
  return result;
}

Cost scaled(Cost cost, int shift) { return cost >= kNever ? kNever : cost << shift; }

std::int64_t whole_multiplier(double multiplier, int shift) {
  return std::llround(std::ldexp(multiplier, shift + kDualBits));
}

/// Price of what a strategy of the node uses, rounded down; `upto` as `Dual::whole_sums`.
template <class Sums>
auto usage_price(const ModelNode& node, std::size_t strategy, const Sums& upto) {
  typename Sums::value_type price = 0;
  for (const Piece& piece : node.pieces)
    price += (upto[piece.to] - upto[piece.from]) * piece.amounts[strategy];
  return price >> kDualBits;
}

/// Least reduced cost of every line of an edge, and of the whole edge.
struct Minima {
  std::vector<Cost> rows, columns;
  Cost least = kNever;
};

}  // namespace

Cost Dual::Exact::proven() const {
  Cost unit = Cost{1} << shift;
  return bound >= 0 ? (bound + unit - 1) / unit : -(-bound / unit);
}

/// Price of the usages of the copy's most expensive state, which may not fit the rows.
double Dual::most_expensive(const SharedCopy& copy) const {
  double most = 0;
  for (int s = 0; s < static_cast<int>(copy.supplies.size()); ++s)
    if (model_->nodes[copy.node].costs[s] < kNever)
      most = std::max(most, copies_->price(copy.node, s));
  return most;
}

/// Largest scale at which no sum of costs leaves 2^58.
int Dual::exact_shift() const {
  double sum = 1;
  auto add = [&](const std::vector<Cost>& costs, std::size_t times = 1) {
    Cost largest = 0;
    for (Cost c : costs)
      if (c < kNever) largest = std::max(largest, std::abs(c));
    sum += static_cast<double>(largest) * static_cast<double>(times);
  };
  for (const DualNode& node : nodes_) add(model_->nodes[node.index].costs);
  for (const DualEdge& edge : edges_)
    if (edge.rows) add(model_->edges[edge.index].costs);
  for (const DualTerm& term : terms_) {
    std::size_t times = term.parts.size();
    for (const SharedCopy& copy : model_->terms[term.index].copies)
      times += static_cast<std::size_t>(most_times(copy));
    add(model_->terms[term.index].costs, times);
  }
  for (const DualTerm& term : terms_)
    for (const SharedCopy& copy : model_->terms[term.index].copies) sum += most_expensive(copy);
  for (std::size_t r = 0; r < state_.multipliers.size(); ++r)
    sum += state_.multipliers[r] * static_cast<double>(model_->slack[r]);
  return std::clamp(static_cast<int>(std::floor(58 - std::log2(sum))), 0, 20);
}

Cost Dual::reduced(const DualEdge& edge, const Exact& exact, std::size_t number, int p,
                   int q) const {
  Cost cost = 0;
  if (edge.rows)
    cost = scaled(view(*model_, edge.index, nodes_[edge.a].index).at(p, q), exact.shift);
  else
    cost = exact.shares[number][(*edge.class_a)[p] * edge.lines_b + (*edge.class_b)[q]];
  if (cost >= kNever) return kNever;
  return cost - exact.message_a[number][p] - exact.message_b[number][q];
}

/// Sums of the multipliers before each row, in whole numbers.
Dual::WholeSums Dual::whole_sums(int shift) const {
  WholeSums upto(state_.multipliers.size() + 1, 0);
  for (std::size_t r = 0; r < state_.multipliers.size(); ++r)
    upto[r + 1] = upto[r] + whole_multiplier(state_.multipliers[r], shift);
  return upto;
}

/// Costs of the states of a copy's node, usages included, rounded down.
std::vector<Cost> Dual::exact_prices(int node, const WholeSums& upto, int shift) const {
  const ModelNode& source = model_->nodes[node];
  std::vector<Cost> result;
  for (int s = 0; s < source.size(); ++s) {
    const Wide price = std::min<Wide>(usage_price(source, s, upto), kMostScaled);
    result.push_back(scaled(source.costs[s], shift) + static_cast<Cost>(price));
  }
  return result;
}

/// Adds the price of usages to the nodes, rounded down, and takes the price of the slack
/// from the bound, rounded up.
void Dual::add_usage_prices(Exact& exact) const {
  const WholeSums upto = whole_sums(exact.shift);
  Wide slack = 0;
  for (std::size_t r = 0; r < state_.multipliers.size(); ++r)
    slack += (upto[r + 1] - upto[r]) * model_->slack[r];
  exact.bound -= static_cast<Cost>((slack + (Wide{1} << kDualBits) - 1) >> kDualBits);
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (std::size_t s = 0; s < exact.node_excess[i].size(); ++s) {
      if (Cost& excess = exact.node_excess[i][s]; excess < kNever)
        excess += static_cast<Cost>(usage_price(model_->nodes[nodes_[i].index], s, upto));
    }
}

/// Turns node totals into excesses: node minima and edge minima go to the bound, line
/// minima to the strategies.
void Dual::add_edge_minima(Exact& exact) const {
  for (auto& excess : exact.node_excess) {
    Cost least = *std::min_element(excess.begin(), excess.end());
    exact.bound += least;
    for (Cost& c : excess)
      if (c < kNever) c -= least;
  }
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const DualEdge& edge = edges_[e];
    std::vector<Cost>&a = exact.node_excess[edge.a], &b = exact.node_excess[edge.b];
    Minima minima{std::vector<Cost>(a.size(), kNever), std::vector<Cost>(b.size(), kNever)};
    for (std::size_t p = 0; p < a.size(); ++p)
      for (std::size_t q = 0; q < b.size(); ++q) {
        Cost cost = reduced(edge, exact, e, static_cast<int>(p), static_cast<int>(q));
        minima.rows[p] = std::min(minima.rows[p], cost);
        minima.columns[q] = std::min(minima.columns[q], cost);
        minima.least = std::min(minima.least, cost);
      }
    exact.bound += minima.least;
    for (std::size_t p = 0; p < a.size(); ++p)
      a[p] = minima.rows[p] < kNever ? plus(a[p], minima.rows[p] - minima.least) : kNever;
    for (std::size_t q = 0; q < b.size(); ++q)
      b[q] = minima.columns[q] < kNever ? plus(b[q], minima.columns[q] - minima.least) : kNever;
  }
}

double Dual::cells_of_exact() const {
  double cells = cells_of_copies() + cells_of_rows();
  for (const DualEdge& edge : edges_)
    cells += kTuning.dual.exact_cells * static_cast<double>(edge.size_a * edge.size_b);
  return cells;
}

Dual::Exact Dual::exact() const {
  Exact result;
  result.shift = exact_shift();
  for (const DualNode& node : nodes_) {
    std::vector<Cost> costs;
    for (Cost cost : model_->nodes[node.index].costs) costs.push_back(scaled(cost, result.shift));
    result.node_excess.push_back(std::move(costs));
  }
  round_shares(result);
  add_usage_prices(result);
  for (const DualEdge& edge : edges_) {
    result.message_a.push_back(
        rounded_messages(state_.messages.data() + edge.at_a, edge.size_a, result.shift));
    result.message_b.push_back(
        rounded_messages(state_.messages.data() + edge.at_b, edge.size_b, result.shift));
    auto give = [](std::vector<Cost>& node, const std::vector<Cost>& message) {
      for (std::size_t s = 0; s < node.size(); ++s) node[s] = plus(node[s], message[s]);
    };
    give(result.node_excess[edge.a], result.message_a.back());
    give(result.node_excess[edge.b], result.message_b.back());
  }
  add_edge_minima(result);
  return result;
}

/// A pair costs at least the bound, the excess of both strategies without this edge,
/// and its own reduced cost.
std::int64_t Dual::fix_pairs(Model& model, const Exact& exact, std::size_t number,
                             Cost allowed) const {
  const DualEdge& edge = edges_[number];
  const std::vector<Cost>&a = exact.node_excess[edge.a], &b = exact.node_excess[edge.b];
  int rows = static_cast<int>(a.size()), columns = static_cast<int>(b.size());
  std::vector<Cost> table(a.size() * b.size());
  Minima minima{std::vector<Cost>(a.size(), kNever), std::vector<Cost>(b.size(), kNever)};
  for (int p = 0; p < rows; ++p)
    for (int q = 0; q < columns; ++q) {
      Cost cost = table[p * columns + q] = reduced(edge, exact, number, p, q);
      minima.rows[p] = std::min(minima.rows[p], cost);
      minima.columns[q] = std::min(minima.columns[q], cost);
      minima.least = std::min(minima.least, cost);
    }
  ModelEdge& target = model.edges[edge.index];
  bool same_way = target.a == nodes_[edge.a].index;
  std::int64_t count = 0;
  for (int p = 0; p < rows; ++p)
    for (int q = 0; q < columns; ++q) {
      Cost cost = table[p * columns + q];
      if (cost >= kNever || a[p] >= kNever || b[q] >= kNever) continue;
      if (a[p] + b[q] + cost - minima.rows[p] - minima.columns[q] + minima.least <= allowed)
        continue;
      target.costs[same_way ? p * columns + q : q * rows + p] = kNever;
      ++count;
    }
  return count;
}

void Dual::reparametrise(Model& model) const {
  for (const DualEdge& edge : edges_) {
    if (!edge.rows) continue;
    std::vector<Cost> a = rounded_messages(state_.messages.data() + edge.at_a, edge.size_a, 0);
    std::vector<Cost> b = rounded_messages(state_.messages.data() + edge.at_b, edge.size_b, 0);
    ModelEdge& target = model.edges[edge.index];
    bool same_way = target.a == nodes_[edge.a].index;
    for (std::size_t p = 0; p < a.size(); ++p)
      for (std::size_t q = 0; q < b.size(); ++q) {
        Cost& cost = target.costs[same_way ? p * b.size() + q : q * a.size() + p];
        if (cost < kNever) cost -= a[p] + b[q];
      }
    auto give = [](std::vector<Cost>& costs, const std::vector<Cost>& message) {
      for (std::size_t s = 0; s < costs.size(); ++s) costs[s] = plus(costs[s], message[s]);
    };
    give(model.nodes[nodes_[edge.a].index].costs, a);
    give(model.nodes[nodes_[edge.b].index].costs, b);
  }
}

std::int64_t Dual::fix(Model& model, const Exact& exact, Cost cutoff) const {
  Cost allowed = scaled(cutoff - 1, exact.shift) - exact.bound;
  std::int64_t count = 0;
  for (std::size_t e = 0; e < edges_.size(); ++e)
    if (edges_[e].rows) count += fix_pairs(model, exact, e, allowed);
  reparametrise(model);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<int> kept;
    for (std::size_t s = 0; s < exact.node_excess[i].size(); ++s)
      if (exact.node_excess[i][s] <= allowed) kept.push_back(static_cast<int>(s));
    std::int64_t dropped = static_cast<std::int64_t>(exact.node_excess[i].size() - kept.size());
    if (dropped > 0) keep_strategies(model, nodes_[i].index, kept);
    count += dropped;
  }
  return count;
}

}  // namespace alpa::ilp
