/// Splits of shared terms among their readers: where they start, and how they are ascended.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dual.h"

namespace alpa::ilp {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<int> distinct(std::vector<int> classes) {
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

/// Per strategy, the place of its class among the distinct ones.
std::shared_ptr<const std::vector<int>> places(const std::vector<int>& classes,
                                               const std::vector<int>& among) {
  std::vector<int> result;
  for (int c : classes)
    result.push_back(static_cast<int>(std::lower_bound(among.begin(), among.end(), c) - among.begin()));
  return std::make_shared<const std::vector<int>>(std::move(result));
}

/// Raises the lowest of `slack` to one level, as far as `shares`, whose sum stays, can be given away.
void level(const std::vector<double*>& shares, std::vector<double>& slack) {
  double sum = 0;
  for (std::size_t j = 0; j < shares.size(); ++j) sum += *shares[j];
  std::size_t active = shares.size();
  double height = 0;
  std::vector<char> out(shares.size(), 0);
  for (bool again = true; again;) {
    double rest = sum;
    for (std::size_t j = 0; j < shares.size(); ++j)
      if (!out[j]) rest -= *shares[j] - slack[j];
    height = rest / static_cast<double>(active);
    again = false;
    for (std::size_t j = 0; j < shares.size(); ++j)
      if (!out[j] && *shares[j] - slack[j] + height < 0) out[j] = 1, --active, again = true;
  }
  for (std::size_t j = 0; j < shares.size(); ++j) *shares[j] = out[j] ? 0 : *shares[j] - slack[j] + height;
}

}  // namespace

void Dual::add_term(int index, std::size_t& messages) {
  const SharedTerm& term = model_->terms[index];
  DualTerm result{index, {}, distinct(term.source.classes), {}};
  const Classes of_source = places(term.source.classes, result.rows);
  std::vector<int> readers_of(static_cast<std::size_t>(term.columns), 0);
  for (int j = 0; j < static_cast<int>(term.readers.size()); ++j) {
    const SharedEnd& reader = term.readers[j];
    const std::vector<int> columns = distinct(reader.classes);
    const Classes of_reader = places(reader.classes, columns);
    const int source_at = at_[term.source.node], reader_at = at_[reader.node];
    const bool from_a = source_at < reader_at;
    const std::size_t rows = result.rows.size(), wants = columns.size();
    DualEdge edge{-1,
                  std::min(source_at, reader_at),
                  std::max(source_at, reader_at),
                  nullptr,
                  nullptr,
                  from_a ? of_source : of_reader,
                  from_a ? of_reader : of_source,
                  from_a ? rows : wants,
                  from_a ? wants : rows,
                  0,
                  0,
                  from_a ? of_source->size() : of_reader->size(),
                  from_a ? of_reader->size() : of_source->size(),
                  state_.shares.size()};
    state_.shares.resize(state_.shares.size() + rows * wants);
    DualTerm::Part part{add_edge(std::move(edge), messages), j, from_a, columns, {}};
    part.column_class.assign(static_cast<std::size_t>(term.columns), -1);
    for (std::size_t c = 0; c < columns.size(); ++c) part.column_class[columns[c]] = static_cast<int>(c);
    for (int c : columns) ++readers_of[c];
    result.parts.push_back(std::move(part));
  }
  for (int c = 0; c < term.columns; ++c) {
    bool costs = false;
    for (std::size_t r = 0; r < result.rows.size(); ++r) {
      const double cost = static_cast<double>(term.cost(result.rows[r], c));
      costs |= cost > 0;
      start_shares(result, static_cast<int>(r), c, cost, readers_of[c]);
    }
    if (costs && readers_of[c] > 1) result.contested.push_back(c);
  }
  terms_.push_back(std::move(result));
}

/// Equal shares, or what is left of those remembered.
void Dual::start_shares(const DualTerm& term, int row_class, int column, double cost, int readers) {
  const SharedTerm& source = model_->terms[term.index];
  const std::size_t cell = static_cast<std::size_t>(term.rows[row_class]) * source.columns + column;
  double known = 0;
  for (const DualTerm::Part& part : term.parts)
    if (part.column_class[column] >= 0 && !source.shares.empty()) known += source.shares[part.reader][cell];
  for (const DualTerm::Part& part : term.parts)
    if (part.column_class[column] >= 0)
      share(part, row_class, part.column_class[column]) =
          known > 0 ? cost * (source.shares[part.reader][cell] / known) : cost / readers;
}

double& Dual::share(const DualTerm::Part& part, int row_class, int column_class) {
  const DualEdge& edge = edges_[part.edge];
  const auto row = static_cast<std::size_t>(row_class), column = static_cast<std::size_t>(column_class);
  return state_
      .shares[edge.at_shares + (part.from_a ? row * edge.lines_b + column : column * edge.lines_b + row)];
}

void Dual::remember_shares(Model& model) const {
  for (const DualTerm& term : terms_) {
    SharedTerm& target = model.terms[term.index];
    target.shares.assign(target.readers.size(), std::vector<double>(target.costs.size(), 0));
    for (const DualTerm::Part& part : term.parts)
      for (std::size_t r = 0; r < term.rows.size(); ++r)
        for (std::size_t c = 0; c < part.columns.size(); ++c)
          target.shares[part.reader]
                       [static_cast<std::size_t>(term.rows[r]) * target.columns + part.columns[c]] =
              const_cast<Dual*>(this)->share(part, static_cast<int>(r), static_cast<int>(c));
  }
}

void Dual::split_terms() {
  for (const DualTerm& term : terms_)
    if (!term.contested.empty()) split(term);
}

/// What a pair of classes costs above the least of its edge is slack: it is levelled among the readers, so
/// that the bound does not fall and the next messages can raise it.
void Dual::split(const DualTerm& term) {
  const std::size_t parts = term.parts.size();
  std::vector<std::vector<double>> from_source(parts), from_reader(parts);
  std::vector<double> least(parts, kInf);
  for (std::size_t j = 0; j < parts; ++j) {
    const DualTerm::Part& part = term.parts[j];
    const DualEdge& edge = edges_[part.edge];
    const auto collapsed = [&](bool a) {
      std::vector<double> result(a ? edge.lines_a : edge.lines_b, -kInf);
      const double* messages = state_.messages.data() + (a ? edge.at_a : edge.at_b);
      const std::vector<int>& classes = a ? *edge.class_a : *edge.class_b;
      for (std::size_t s = 0; s < classes.size(); ++s)
        result[classes[s]] = std::max(result[classes[s]], messages[s]);
      return result;
    };
    from_source[j] = collapsed(part.from_a);
    from_reader[j] = collapsed(!part.from_a);
    for (std::size_t r = 0; r < from_source[j].size(); ++r)
      for (std::size_t c = 0; c < from_reader[j].size(); ++c)
        least[j] = std::min(least[j], share(part, static_cast<int>(r), static_cast<int>(c)) -
                                          from_source[j][r] - from_reader[j][c]);
  }
  std::vector<double*> shares;
  std::vector<double> slack;
  for (int r = 0; r < static_cast<int>(term.rows.size()); ++r)
    for (int c : term.contested) {
      shares.clear(), slack.clear();
      for (std::size_t j = 0; j < parts; ++j) {
        const int column = term.parts[j].column_class[c];
        if (column < 0) continue;
        shares.push_back(&share(term.parts[j], r, column));
        slack.push_back(*shares.back() - from_source[j][r] - from_reader[j][column] - least[j]);
      }
      level(shares, slack);
    }
}

/// Shares in whole numbers that sum to no more than the cost.
void Dual::round_shares(Exact& exact) const {
  exact.shares.resize(edges_.size());
  for (const DualTerm& term : terms_) {
    const SharedTerm& source = model_->terms[term.index];
    for (const DualTerm::Part& part : term.parts)
      exact.shares[part.edge].resize(edges_[part.edge].lines_a * edges_[part.edge].lines_b);
    for (std::size_t r = 0; r < term.rows.size(); ++r)
      for (int c = 0; c < source.columns; ++c) {
        Cost left = source.cost(term.rows[r], c) << exact.shift;
        for (const DualTerm::Part& part : term.parts) {
          const int column = part.column_class[c];
          if (column < 0) continue;
          const double real = const_cast<Dual*>(this)->share(part, static_cast<int>(r), column);
          const Cost whole = std::clamp<Cost>(std::llround(std::ldexp(real, exact.shift)), 0, left);
          const DualEdge& edge = edges_[part.edge];
          exact.shares[part.edge][part.from_a ? r * edge.lines_b + column : column * edge.lines_b + r] =
              whole;
          left -= whole;
        }
      }
  }
}

}  // namespace alpa::ilp
