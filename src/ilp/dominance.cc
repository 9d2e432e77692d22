// src/ilp/dominance.cc — Goldstein dominance: p replaces p' if it costs and uses no more, whatever the
// neighbours choose
#include <algorithm>
#include <numeric>
#include <utility>

#include "reduce.h"

namespace alpa::ilp {
namespace {

/// An end that the node has of a shared term: what one class may cost more than another.
struct TermEnd {
  const std::vector<int>& classes;  // per strategy
  std::size_t count;                // of classes
  std::vector<Cost> more;           // count x count
};

/// A source pays the difference in every column that may be wanted.
TermEnd source_end(const SharedTerm& term) {
  TermEnd end{term.source.classes, static_cast<std::size_t>(term.rows), {}};
  for (int row = 0; row < term.rows; ++row)
    for (int other = 0; other < term.rows; ++other) {
      Cost sum = row != other && !term.copies.empty() ? kNever : 0;  // copies use something, too
      for (int c = 0; c < term.columns; ++c)
        sum += std::max<Cost>(0, term.cost(row, c) - term.cost(other, c));
      end.more.push_back(sum);
    }
  return end;
}

/// A reader may be the only one who wants its column, while another column is paid for by others.
TermEnd reader_end(const SharedTerm& term, const SharedEnd& reader) {
  TermEnd end{reader.classes, static_cast<std::size_t>(term.columns), {}};
  for (int column = 0; column < term.columns; ++column) {
    Cost most = term.copies.empty() ? 0 : kNever;
    for (int row = 0; row < term.rows; ++row) most = std::max(most, term.cost(row, column));
    for (int other = 0; other < term.columns; ++other) end.more.push_back(column == other ? 0 : most);
  }
  return end;
}

/// A node's tables with row minima taken out, so that every term of the criterion is non-negative and sums
/// can stop early. Infinite entries stay infinite.
struct Rows {
  const ModelNode& node;
  std::vector<Cost> costs;                // node costs plus all row minima
  std::vector<std::vector<Cost>> tables;  // row-major
  std::vector<int> columns;
  std::vector<TermEnd> ends;
  mutable double looked_at = 0;  ///< cells

  Rows(const Model& model, int index) : node(model.nodes[index]), costs(node.costs) {
    for (int t : node.terms) {
      const SharedTerm& term = model.terms[t];
      if (term.source.node == index) ends.push_back(source_end(term));
      for (const SharedEnd& reader : term.readers)
        if (reader.node == index) ends.push_back(reader_end(term, reader));
    }
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

  /// What p may cost more than `loser` in the shared terms, whatever the other ends choose; stops above
  /// `slack`.
  Cost worst_in_terms(int p, int loser, Cost slack) const {
    Cost sum = 0;
    for (std::size_t e = 0; e < ends.size() && sum <= slack; ++e)
      sum +=
          ends[e]
              .more[static_cast<std::size_t>(ends[e].classes[p]) * ends[e].count + ends[e].classes[loser]];
    looked_at += static_cast<double>(ends.size());
    return sum;
  }

  /// True if p can replace `loser` everywhere.
  bool replaces(int p, int loser) const {
    if (costs[p] > costs[loser] || costs[p] >= kNever) return false;
    if (!uses_no_more(node, p, loser)) return false;
    if (costs[loser] >= kNever) return true;
    Cost slack = costs[loser] - costs[p];
    slack -= worst_in_terms(p, loser, slack);
    if (slack < 0) return false;
    for (std::size_t e = 0; e < tables.size(); ++e) {
      const Cost* mine = tables[e].data() + static_cast<std::size_t>(p) * columns[e];
      const Cost* other = tables[e].data() + static_cast<std::size_t>(loser) * columns[e];
      Cost worst = 0;
      int q = 0;
      for (; q < columns[e] && worst <= slack; ++q)
        if (other[q] < kNever) worst = std::max(worst, mine[q] - other[q]);
      looked_at += q;
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
