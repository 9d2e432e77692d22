// Shares of shared terms among their readers: where they start, and how ascent levels them
#include <algorithm>

#include "src/base/infinity.h"
#include "src/ilp/dual/dual.h"

namespace alpa::ilp {
namespace {

/// Per strategy, the place of its class among the distinct ones.
std::shared_ptr<const std::vector<int>> places(const std::vector<int>& classes,
                                               const std::vector<int>& among) {
  std::vector<int> result;
  for (int c : classes)
    result.push_back(
        static_cast<int>(std::lower_bound(among.begin(), among.end(), c) - among.begin()));
  return std::make_shared<const std::vector<int>>(std::move(result));
}

/// Shares base[j] + height, of at least 0, that sum to `cost`.
void level(std::vector<double>& base, double cost) {
  std::size_t active = base.size();
  double height = 0;
  for (bool again = true; again && active > 0;) {
    double rest = cost;
    for (double b : base)
      if (b > -kInfinity) rest -= b;
    height = rest / static_cast<double>(active);
    again = false;
    for (double& b : base)
      if (b > -kInfinity && b + height < 0) b = -kInfinity, --active, again = true;  // pays nothing
  }
  for (double& b : base) b = b > -kInfinity ? b + height : 0;
}

}  // namespace

void Dual::add_term(int index, std::size_t& messages) {
  const SharedTerm& source = model_->terms[index];
  DualTerm term{.index = index, .rows = distinct(source.source.classes)};
  term.copy_at.assign(static_cast<std::size_t>(source.columns), -1);
  for (std::size_t k = 0; k < source.copies.size(); ++k)
    term.copy_at[source.copies[k].column] = static_cast<int>(k);
  const Classes of_source = places(source.source.classes, term.rows);
  for (int j = 0; j < static_cast<int>(source.readers.size()); ++j)
    term.parts.push_back(part_of(term, j, of_source, messages));
  for (int c = 0; c < source.columns; ++c) add_column(term, c);
  for (const SharedCopy& copy : source.copies) term.groups.push_back(groups_of(term, copy.column));
  for (DualTerm::TermEdge& part : term.parts)
    for (int c : term.contested) {
      part.contested_class.push_back(part.column_class[c]);
      term.able.push_back(part.column_class[c] >= 0 ? 1 : 0);
    }
  for (int row : term.rows)
    for (int c : term.contested) term.costs.push_back(static_cast<double>(source.cost(row, c)));
  terms_.push_back(std::move(term));
}

/// The reader's edge to the source, with room for its shares.
Dual::DualTerm::TermEdge Dual::part_of(const DualTerm& term, int reader, const Classes& of_source,
                                       std::size_t& messages) {
  const SharedTerm& source = model_->terms[term.index];
  const SharedEnd& end = source.readers[reader];
  DualTerm::TermEdge part{.reader = reader, .group = end.group, .columns = distinct(end.classes)};
  const Classes of_reader = places(end.classes, part.columns);
  const int source_at = at_[source.source.node], reader_at = at_[end.node];
  const std::size_t rows = term.rows.size(), columns = part.columns.size();
  part.from_a = source_at < reader_at;
  DualEdge edge{.a = std::min(source_at, reader_at),
                .b = std::max(source_at, reader_at),
                .class_a = part.from_a ? of_source : of_reader,
                .class_b = part.from_a ? of_reader : of_source,
                .lines_a = part.from_a ? rows : columns,
                .lines_b = part.from_a ? columns : rows,
                .at_shares = state_.shares.size()};
  edge.size_a = edge.class_a->size();
  edge.size_b = edge.class_b->size();
  state_.shares.resize(state_.shares.size() + rows * columns);
  part.edge = add_edge(std::move(edge), messages);
  part.column_class.assign(static_cast<std::size_t>(source.columns), -1);
  for (std::size_t c = 0; c < columns; ++c)
    part.column_class[part.columns[c]] = static_cast<int>(c);
  return part;
}

/// Starts the shares of a column, and notes whether readers compete for it.
void Dual::add_column(DualTerm& term, int column) {
  const auto readers = static_cast<int>(std::count_if(
      term.parts.begin(), term.parts.end(),
      [&](const DualTerm::TermEdge& part) { return part.column_class[column] >= 0; }));
  bool costs = false;
  for (std::size_t r = 0; r < term.rows.size(); ++r) {
    const double cost = static_cast<double>(model_->terms[term.index].cost(term.rows[r], column));
    costs |= cost > 0;
    start_shares(term, static_cast<int>(r), column, cost, readers);
  }
  if (readers < 2) return;
  if (term.copy_at[column] >= 0) {
    term.copied.push_back(column);
  } else if (costs) {
    term.contested.push_back(column);
    term.per_reader.push_back(1.0 / readers);
  }
}

/// Equal shares, or what is left of those remembered.
void Dual::start_shares(const DualTerm& term, int row_class, int column, double cost, int readers) {
  const SharedTerm& source = model_->terms[term.index];
  const std::size_t cell = static_cast<std::size_t>(term.rows[row_class]) * source.columns + column;
  const auto before = [&](const DualTerm::TermEdge& part) {
    return source.splits[part.reader].shares[cell];
  };
  double known = 0;
  for (const DualTerm::TermEdge& part : term.parts)
    if (part.column_class[column] >= 0 && !source.splits.empty()) known += before(part);
  for (const DualTerm::TermEdge& part : term.parts)
    if (part.column_class[column] >= 0)
      state_.shares[share_at(part, row_class, part.column_class[column])] =
          known > 0 ? cost * (before(part) / known) : cost / readers;
}

/// The messages remembered, after those of all edges have been set to 0.
void Dual::start_messages(const DualTerm& term) {
  const SharedTerm& source = model_->terms[term.index];
  for (const DualTerm::TermEdge& part : term.parts) {
    if (source.splits.empty()) continue;
    const DualEdge& edge = edges_[part.edge];
    const SharedTerm::Split& split = source.splits[part.reader];
    const auto start = [&](const std::vector<double>& messages, std::size_t at, int node) {
      for (std::size_t s = 0; s < messages.size(); ++s) {
        state_.messages[at + s] = messages[s];
        state_.totals[nodes_[node].at + s] += messages[s];
      }
    };
    start(part.from_a ? split.to_source : split.to_reader, edge.at_a, edge.a);
    start(part.from_a ? split.to_reader : split.to_source, edge.at_b, edge.b);
  }
}

std::size_t Dual::share_at(const DualTerm::TermEdge& part, std::size_t row,
                           std::size_t column) const {
  const DualEdge& edge = edges_[part.edge];
  return edge.at_shares + (part.from_a ? row * edge.lines_b + column : column * edge.lines_b + row);
}

void Dual::remember_splits(Model& model) const {
  for (const DualTerm& term : terms_) {
    SharedTerm& target = model.terms[term.index];
    target.splits.assign(target.readers.size(), {});
    for (const DualTerm::TermEdge& part : term.parts) {
      const DualEdge& edge = edges_[part.edge];
      const auto messages = [&](bool a) {
        const auto first =
            state_.messages.begin() + static_cast<std::ptrdiff_t>(a ? edge.at_a : edge.at_b);
        return std::vector<double>(
            first, first + static_cast<std::ptrdiff_t>(a ? edge.size_a : edge.size_b));
      };
      SharedTerm::Split& split = target.splits[part.reader];
      split = {std::vector<double>(target.costs.size(), 0), messages(part.from_a),
               messages(!part.from_a)};
      for (std::size_t r = 0; r < term.rows.size(); ++r)
        for (std::size_t c = 0; c < part.columns.size(); ++c)
          split.shares[static_cast<std::size_t>(term.rows[r]) * target.columns + part.columns[c]] =
              state_.shares[share_at(part, r, c)];
    }
  }
}

void Dual::split_terms() {
  for (const DualTerm& term : terms_) {
    if (!term.contested.empty()) split(term);
    if (!term.copied.empty()) split_copies(term);
  }
}

/// Messages of a part to its source's classes and, by contested column, to its reader's.
void Dual::collect(const DualTerm& term, std::size_t j) {
  const DualTerm::TermEdge& part = term.parts[j];
  const DualEdge& edge = edges_[part.edge];
  const auto lines = [&](bool a, double* out) {
    collapse(state_.messages.data() + (a ? edge.at_a : edge.at_b),
             a ? *edge.class_a : *edge.class_b, out, a ? edge.lines_a : edge.lines_b);
  };
  lines(part.from_a, split_rows_.data() + j * term.rows.size());
  lines(!part.from_a, collapsed_.data());
  double* columns = split_columns_.data() + j * term.contested.size();
  for (std::size_t k = 0; k < term.contested.size(); ++k)
    columns[k] = part.contested_class[k] < 0 ? 0 : collapsed_[part.contested_class[k]];
}

/// A pair of classes has slack where its edge costs more than its least, which is 0 after a
/// pass. The slack is levelled among the readers, so that the bound does not fall and the
/// next messages can raise it.
void Dual::split(const DualTerm& term) {
  const std::size_t parts = term.parts.size(), rows = term.rows.size(),
                    columns = term.contested.size();
  split_rows_.resize(parts * rows);
  split_columns_.resize(parts * columns);
  for (std::size_t j = 0; j < parts; ++j) collect(term, j);
  height_.resize(columns);
  lowest_.resize(columns);
  for (std::size_t r = 0; r < rows; ++r) {
    double *const height = height_.data(), *const lowest = lowest_.data();
    const double* cost = term.costs.data() + r * columns;
    std::copy(cost, cost + columns, height);
    for (std::size_t j = 0; j < parts; ++j) {
      const double *base = split_columns_.data() + j * columns,
                   *able = term.able.data() + j * columns;
      const double own = split_rows_[j * rows + r];
      for (std::size_t k = 0; k < columns; ++k) height[k] -= able[k] * (base[k] + own);
    }
    for (std::size_t k = 0; k < columns; ++k) height[k] *= term.per_reader[k];
    std::fill(lowest, lowest + columns, 0);
    for (std::size_t j = 0; j < parts; ++j) give_shares(term, j, r);
    for (std::size_t k = 0; k < columns; ++k)
      if (lowest[k] < 0) level_above_zero(term, r, k);
  }
}

/// The part's shares of one row: up to the level of all parts.
void Dual::give_shares(const DualTerm& term, std::size_t j, std::size_t r) {
  const DualTerm::TermEdge& part = term.parts[j];
  const DualEdge& edge = edges_[part.edge];
  const double* base = split_columns_.data() + j * term.contested.size();
  const double own = split_rows_[j * term.rows.size() + r];
  double* const shares =
      state_.shares.data() + edge.at_shares + (part.from_a ? r * edge.lines_b : r);
  const std::size_t stride = part.from_a ? 1 : edge.lines_b;
  for (std::size_t k = 0; k < term.contested.size(); ++k) {
    const int column = part.contested_class[k];
    if (column < 0) continue;
    const double mine = base[k] + own + height_[k];
    shares[static_cast<std::size_t>(column) * stride] = mine;
    lowest_[k] = std::min(lowest_[k], mine);
  }
}

/// Shares stay at least 0 and sum to the cost.
void Dual::extrapolate_shares(const DualTerm& term, const State& before, double times) {
  for (std::size_t r = 0; r < term.rows.size(); ++r)
    for (std::size_t k = 0; k < term.contested.size(); ++k) {
      double sum = 0;
      for (const DualTerm::TermEdge& part : term.parts) {
        if (part.contested_class[k] < 0) continue;
        const std::size_t at = share_at(part, r, part.contested_class[k]);
        double& share = state_.shares[at];
        share = std::max(0.0, share + times * (share - before.shares[at]));
        sum += share;
      }
      const double scale = sum > 0 ? term.costs[r * term.contested.size() + k] / sum : 1;
      for (const DualTerm::TermEdge& part : term.parts)
        if (part.contested_class[k] >= 0)
          state_.shares[share_at(part, r, part.contested_class[k])] *= scale;
    }
}

/// Levels the shares of one row and contested column where some would be negative.
void Dual::level_above_zero(const DualTerm& term, std::size_t r, std::size_t k) {
  level_.clear();
  for (std::size_t j = 0; j < term.parts.size(); ++j)
    if (term.parts[j].contested_class[k] >= 0)
      level_.push_back(split_columns_[j * term.contested.size() + k] +
                       split_rows_[j * term.rows.size() + r]);
  level(level_, term.costs[r * term.contested.size() + k]);
  std::size_t next = 0;
  for (const DualTerm::TermEdge& part : term.parts)
    if (part.contested_class[k] >= 0)
      state_.shares[share_at(part, r, part.contested_class[k])] = level_[next++];
}

}  // namespace alpa::ilp
