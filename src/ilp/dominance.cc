/// Goldstein dominance: p replaces p' when, whatever the neighbours choose, it costs no more and uses no
/// more.
#include <algorithm>
#include <numeric>
#include <utility>

#include "reduce.h"

namespace alpa::ilp {
namespace {

/// A node's tables with row minima taken out, so that every term of the criterion is non-negative and sums
/// can stop early. Infinite entries stay infinite.
struct Rows {
  const Model& model;
  int index;
  const ModelNode& node;
  std::vector<Cost> costs;                // node costs plus all row minima
  std::vector<std::vector<Cost>> tables;  // row-major
  std::vector<int> columns;
  mutable double looked_at = 0;  ///< cells

  Rows(const Model& m, int i) : model(m), index(i), node(m.nodes[i]), costs(node.costs) {
    for (int e : node.edges) {
      View table = view(model, e, index);
      std::vector<Cost> rows(costs.size() * table.columns);
      for (int p = 0; p < node.size(); ++p) fill_row(table, p, rows.data() + p * table.columns);
      tables.push_back(std::move(rows));
      columns.push_back(table.columns);
    }
  }

  void fill_row(const View& table, int p, Cost* row) {
    Cost least = kNever;
    for (int q = 0; q < table.columns; ++q) least = std::min(least, row[q] = table.at(p, q));
    costs[p] = plus(costs[p], least);
    if (least >= kNever) return;
    for (int q = 0; q < table.columns; ++q)
      if (row[q] < kNever) row[q] -= least;
  }

  /// What p may cost more than `loser` in the shared terms, whatever the other ends choose.
  Cost worst_in_terms(int p, int loser) const {
    Cost sum = 0;
    for (int t : node.terms) {
      const SharedTerm& term = model.terms[t];
      if (term.source.node == index)
        sum += worst_row(term, term.source.classes[p], term.source.classes[loser]);
      for (const SharedEnd& reader : term.readers)
        if (reader.node == index && reader.classes[p] != reader.classes[loser])
          sum += dearest(term, reader.classes[p]);
    }
    return sum;
  }

  static Cost worst_row(const SharedTerm& term, int row, int other) {
    Cost sum = 0;
    for (int c = 0; row != other && c < term.columns; ++c)
      sum += std::max<Cost>(0, term.cost(row, c) - term.cost(other, c));
    return sum;
  }

  static Cost dearest(const SharedTerm& term, int column) {
    Cost most = 0;
    for (int row = 0; row < term.rows; ++row) most = std::max(most, term.cost(row, column));
    return most;
  }

  /// True if p can replace `loser` everywhere.
  bool replaces(int p, int loser) const {
    if (costs[p] > costs[loser] || costs[p] >= kNever) return false;
    if (!uses_no_more(node, p, loser)) return false;
    if (costs[loser] >= kNever) return true;
    Cost slack = costs[loser] - costs[p] - worst_in_terms(p, loser);
    if (slack < 0) return false;
    for (std::size_t e = 0; e < tables.size(); ++e) {
      const Cost* mine = tables[e].data() + static_cast<std::size_t>(p) * columns[e];
      const Cost* other = tables[e].data() + static_cast<std::size_t>(loser) * columns[e];
      Cost worst = 0;
      looked_at += columns[e];
      for (int q = 0; q < columns[e]; ++q)
        if (other[q] < kNever) worst = std::max(worst, mine[q] - other[q]);
      if (worst > slack) return false;
      slack -= worst;
    }
    return true;
  }
};

}  // namespace

std::vector<int> undominated_strategies(const Model& model, int index, const Deadline& deadline) {
  Rows rows(model, index);
  std::vector<int> order(rows.costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int p, int q) { return rows.costs[p] < rows.costs[q]; });
  std::vector<int> kept;
  for (int candidate : order) {
    deadline.spend(std::exchange(rows.looked_at, 0) + rows.tables.size());
    if (deadline.passed()) {
      kept.push_back(candidate);
      continue;
    }
    bool lost = std::any_of(kept.begin(), kept.end(), [&](int p) { return rows.replaces(p, candidate); });
    if (lost) continue;
    // Equal costs: the newcomer may replace earlier ones by using less.
    std::erase_if(
        kept, [&](int p) { return rows.costs[p] == rows.costs[candidate] && rows.replaces(candidate, p); });
    kept.push_back(candidate);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace alpa::ilp
