// Elimination of nodes with one or two neighbours by min-plus, usages included where that is exact
#include <algorithm>

#include "src/ilp/reduce/presolve.h"

namespace alpa::ilp {
namespace {

/// Best strategy under the costs `cost(p)`: the cheapest, and of these one that uses
/// least. `unique` is false if one that costs more uses less somewhere, so that the
/// choice is not determined.
struct Best {
  int strategy = 0;
  Cost cost = kNever;
  bool unique = true;
};

template <class Price>
Best best_strategy(const ModelNode& node, const Price& price) {
  Best best;
  for (int p = 0; p < node.size(); ++p) {
    Cost cost = price(p);
    if (cost < best.cost ||
        (cost == best.cost && cost < kNever && uses_no_more(node, p, best.strategy)))
      best = {p, cost, true};
  }
  if (node.pieces.empty() || best.cost >= kNever) return best;
  for (int p = 0; p < node.size() && best.unique; ++p)
    best.unique = price(p) >= kNever || uses_no_more(node, best.strategy, p);
  return best;
}

/// Gives `to` the usage of `from` under the strategies `chosen`, one per strategy of `to`.
void move_usage(ModelNode& from, ModelNode& to, const std::vector<int>& chosen) {
  for (const Piece& piece : from.pieces) {
    Piece moved{piece.from, piece.to, {}};
    for (int p : chosen) moved.amounts.push_back(piece.amounts[p]);
    to.pieces.push_back(std::move(moved));
    to.normal = false;
  }
}

bool eliminate_alone(Model& model, int index) {
  ModelNode& node = model.nodes[index];
  Best best = best_strategy(node, [&](int p) { return node.costs[p]; });
  if (best.cost >= kNever) throw Contradiction{};
  if (!best.unique) return false;
  for (const Piece& piece : node.pieces)
    for (int r = piece.from; r < piece.to; ++r) model.slack[r] -= piece.amounts[best.strategy];
  model.constant += best.cost;
  retire(model, index, {}, {best.strategy});
  return true;
}

bool same_usage(const ModelNode& node, int p, int q) {
  return uses_no_more(node, p, q) && uses_no_more(node, q, p);
}

/// Strategies per row if the usage of `table` (rows x columns, -1 = impossible)
/// depends on the row alone.
std::optional<std::vector<int>> usage_by_row(const ModelNode& node, const std::vector<int>& table,
                                             int rows, int columns, int row_stride,
                                             int column_stride) {
  std::vector<int> result(rows, -1);
  for (int q = 0; q < rows; ++q)
    for (int r = 0; r < columns; ++r) {
      int p = table[q * row_stride + r * column_stride];
      if (p < 0) continue;
      if (result[q] < 0) result[q] = p;
      if (!same_usage(node, p, result[q])) return std::nullopt;
    }
  for (int& p : result) p = std::max(p, 0);  // an impossible strategy may use anything
  return result;
}

/// Result of min-plus over a node between two neighbours.
struct Between {
  std::vector<Cost> costs;
  std::vector<int> strategies;  // -1: impossible
};

/// Without usages: minimum over p of first(p, q) + second(p, r).
std::optional<Between> min_plus(const ModelNode& node, const View& first, const View& second,
                                const Deadline& deadline) {
  Between result{
      std::vector<Cost>(static_cast<std::size_t>(first.columns) * second.columns, kNever), {}};
  result.strategies.assign(result.costs.size(), -1);
  std::vector<Cost> row(second.columns);
  for (int p = 0; p < node.size(); ++p) {
    deadline.spend(static_cast<double>(result.costs.size()));
    if (deadline.passed()) return std::nullopt;
    for (int r = 0; r < second.columns; ++r) row[r] = plus(node.costs[p], second.at(p, r));
    for (int q = 0; q < first.columns; ++q) {
      Cost base = first.at(p, q);
      if (base >= kNever) continue;
      Cost* costs = result.costs.data() + static_cast<std::size_t>(q) * second.columns;
      int* strategies = result.strategies.data() + static_cast<std::size_t>(q) * second.columns;
      for (int r = 0; r < second.columns; ++r)
        if (row[r] < kNever && base + row[r] < costs[r])
          costs[r] = base + row[r], strategies[r] = p;
    }
  }
  return result;
}

std::optional<Between> min_plus_with_usage(const ModelNode& node, const View& first,
                                           const View& second, const Deadline& deadline) {
  Between result;
  for (int q = 0; q < first.columns; ++q) {
    deadline.spend(static_cast<double>(node.size()) * second.columns * (1 + node.pieces.size()));
    if (deadline.passed()) return std::nullopt;
    for (int r = 0; r < second.columns; ++r) {
      Best best = best_strategy(
          node, [&](int p) { return plus(node.costs[p], plus(first.at(p, q), second.at(p, r))); });
      if (!best.unique) return std::nullopt;
      result.costs.push_back(best.cost);
      result.strategies.push_back(best.cost >= kNever ? -1 : best.strategy);
    }
  }
  return result;
}

/// Moves the usage of the eliminated node to one of its neighbours j, k.
/// False if it depends on both.
bool move_between(Model& model, int index, int j, int k, const std::vector<int>& table) {
  ModelNode &node = model.nodes[index], &first = model.nodes[j], &second = model.nodes[k];
  if (node.pieces.empty()) return true;
  int rows = first.size(), columns = second.size();
  if (auto chosen = usage_by_row(node, table, rows, columns, columns, 1)) {
    move_usage(node, first, *chosen);
    return true;
  }
  if (auto chosen = usage_by_row(node, table, columns, rows, 1, columns)) {
    move_usage(node, second, *chosen);
    return true;
  }
  return false;
}

}  // namespace

bool eliminate_leaf(Model& model, int index, const Deadline& deadline) {
  ModelNode& node = model.nodes[index];
  if (node.edges.empty()) return eliminate_alone(model, index);
  int edge = node.edges[0], j = model.edges[edge].other(index);
  View table = view(model, edge, index);
  std::vector<int> chosen;
  std::vector<Cost> costs;
  for (int q = 0; q < table.columns; ++q) {
    deadline.spend(static_cast<double>(node.size()) * (1 + node.pieces.size()));
    if (deadline.passed()) return false;
    Best best = best_strategy(node, [&](int p) { return plus(node.costs[p], table.at(p, q)); });
    if (!best.unique) return false;
    chosen.push_back(best.strategy);
    costs.push_back(best.cost);
  }
  ModelNode& other = model.nodes[j];
  for (int q = 0; q < other.size(); ++q) other.costs[q] = plus(other.costs[q], costs[q]);
  move_usage(node, other, chosen);
  remove_edge(model, edge);
  retire(model, index, {j}, std::move(chosen));
  return true;
}

bool eliminate_between(Model& model, int index, std::int64_t cells, const Deadline& deadline) {
  ModelNode& node = model.nodes[index];
  int e = node.edges[0], f = node.edges[1];
  int j = model.edges[e].other(index), k = model.edges[f].other(index);
  View first = view(model, e, index), second = view(model, f, index);
  if (static_cast<std::int64_t>(first.columns) * second.columns > cells) return false;
  std::optional<Between> result;
  if (node.pieces.empty())
    result = min_plus(node, first, second, deadline);
  else
    result = min_plus_with_usage(node, first, second, deadline);
  if (!result || !move_between(model, index, j, k, result->strategies)) return false;
  for (int& p : result->strategies) p = std::max(p, 0);
  remove_edge(model, e);
  remove_edge(model, f);
  add_edge(model, j, k, std::move(result->costs));
  retire(model, index, {j, k}, std::move(result->strategies));
  return true;
}

}  // namespace alpa::ilp
