// Goldstein dominance: p replaces p' if it costs and uses no more, whatever the neighbours choose
#include <algorithm>
#include <numeric>
#include <utility>

#include "src/ilp/reduce/presolve.h"

namespace alpa::ilp {
namespace {

/// An end that the node has of a shared term: what one class may cost more than another.
class TermEnd {
 public:
  static TermEnd of_source(const SharedTerm& term) { return {term, term.source.classes, {}}; }

  /// A reader may be the only one who wants its column, while another column is paid for by others.
  static TermEnd of_reader(const SharedTerm& term, const SharedEnd& reader) {
    TermEnd end{term, reader.classes, {}};
    for (int column = 0; column < term.columns; ++column) {
      Cost dearest = has_copies(term) ? kNever : 0;  // which use something, too
      for (int row = 0; row < term.rows; ++row) dearest = std::max(dearest, term.cost(row, column));
      end.dearest_.push_back(dearest);
    }
    return end;
  }

  /// The most that strategy p may cost more than `loser`, over all choices of the other
  /// ends; stops above `slack`.
  Cost worst(int p, int loser, Cost slack, double& looked_at) const {
    const int mine = classes_[p], other = classes_[loser];
    if (mine == other) return 0;
    if (!dearest_.empty()) return dearest_[mine];
    if (has_copies(term_)) return kNever;
    Cost sum = 0;  // a source pays the difference in every column that may be wanted
    int c = 0;
    for (; c < term_.columns && sum <= slack; ++c)
      sum += std::max<Cost>(0, term_.cost(mine, c) - term_.cost(other, c));
    looked_at += c;
    return sum;
  }

 private:
  TermEnd(const SharedTerm& term, const std::vector<int>& classes, std::vector<Cost> dearest)
      : term_(term), classes_(classes), dearest_(std::move(dearest)) {}
  static bool has_copies(const SharedTerm& term) { return !term.copies.empty(); }

  const SharedTerm& term_;
  const std::vector<int>& classes_;  ///< per strategy
  std::vector<Cost> dearest_;        ///< of a reader, by column
};

/// A node's tables with row minima taken out, so that every term of the criterion is non-negative
/// and sums can stop early. Infinite entries stay infinite.
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
      if (term.source.node == index) ends.push_back(TermEnd::of_source(term));
      for (const SharedEnd& reader : term.readers)
        if (reader.node == index) ends.push_back(TermEnd::of_reader(term, reader));
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

  /// The most that p may cost more than `loser` in the shared terms; stops above `slack`.
  Cost worst_in_terms(int p, int loser, Cost slack) const {
    Cost sum = 0;
    for (std::size_t e = 0; e < ends.size() && sum <= slack; ++e)
      sum += ends[e].worst(p, loser, slack - sum, looked_at);
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
  std::stable_sort(order.begin(), order.end(),
                   [&](int p, int q) { return rows.costs[p] < rows.costs[q]; });
  std::vector<int> kept;
  for (int candidate : order) {
    deadline.spend(std::exchange(rows.looked_at, 0) + rows.tables.size());
    if (deadline.passed()) {
      kept.push_back(candidate);
      continue;
    }
    bool lost =
        std::any_of(kept.begin(), kept.end(), [&](int p) { return rows.replaces(p, candidate); });
    if (lost) continue;
    // Equal costs: the newcomer may replace earlier ones by using less.
    std::erase_if(kept, [&](int p) {
      return rows.costs[p] == rows.costs[candidate] && rows.replaces(candidate, p);
    });
    kept.push_back(candidate);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace alpa::ilp
