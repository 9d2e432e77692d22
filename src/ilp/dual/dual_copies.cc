// Shares of copies with usages: the most that readers of each set of groups may pay together
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "src/base/infinity.h"
#include "src/ilp/dual/dual.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

/// A reader of a copy: what it pays where it has no slack, and its new share.
struct Payer {
  double base, share;
  unsigned group;  ///< as a set
  bool settled;
};

/// The level at which the unsettled payers of `groups` pay `sum` together.
double height_of(const std::vector<Payer>& payers, unsigned groups, double sum) {
  double height = kInfinity;
  for (bool again = true; again;) {
    double rest = sum, least = kInfinity;
    int count = 0;
    for (const Payer& p : payers) {
      if ((p.group & groups) == 0 || p.settled || p.base + height < 0) continue;
      rest -= p.base;
      least = std::min(least, p.base);
      ++count;
    }
    if (count == 0) return height;
    height = rest / count;
    again = least + height < 0;
  }
  return height;
}

/// Raises all payers to one level, until those of a set of groups pay as much as
/// they may; then the others.
template <class Limits>
void level_within(std::vector<Payer>& payers, unsigned all, const Limits& limits) {
  while (std::any_of(payers.begin(), payers.end(), [](const Payer& p) { return !p.settled; })) {
    double lowest = kInfinity;
    unsigned tight = all;
    for (unsigned set = all; set != 0; set = (set - 1) & all) {
      double sum = limits[set];
      bool open = false;
      for (const Payer& p : payers)
        if (p.group & set) open |= !p.settled, sum -= p.settled ? p.share : 0;
      if (!open) continue;
      const double height = height_of(payers, set, std::max(0.0, sum));
      if (height < lowest) lowest = height, tight = set;
    }
    for (Payer& p : payers)
      if ((p.group & tight) && !p.settled)
        p.share = std::max(0.0, p.base + lowest), p.settled = true;
  }
}

}  // namespace

/// The slack of a pair of classes is its cost above the least of its edge, as in `split`.
void Dual::split_copies(const DualTerm& term) {
  const std::size_t parts = term.parts.size();
  std::vector<std::vector<double>>&from_source = from_source_, &from_reader = from_reader_;
  if (from_source.size() < parts) from_source.resize(parts), from_reader.resize(parts);
  for (std::size_t j = 0; j < parts; ++j) {
    const DualEdge& edge = edges_[term.parts[j].edge];
    std::vector<double>&a = term.parts[j].from_a ? from_source[j] : from_reader[j],
    &b = term.parts[j].from_a ? from_reader[j] : from_source[j];
    a.resize(edge.lines_a), b.resize(edge.lines_b);
    collapse(state_.messages.data() + edge.at_a, *edge.class_a, a.data(), edge.lines_a);
    collapse(state_.messages.data() + edge.at_b, *edge.class_b, b.data(), edge.lines_b);
  }
  std::vector<double*>& shares = paid_;
  std::vector<Payer> payers;
  for (int c : term.copied) {
    const auto copy = static_cast<std::size_t>(term.copy_at[c]), copies = term.groups.size();
    for (std::size_t r = 0; r < term.rows.size(); ++r) {
      shares.clear(), payers.clear();
      for (std::size_t j = 0; j < parts; ++j) {
        const int column = term.parts[j].column_class[c];
        if (column < 0) continue;
        shares.push_back(&state_.shares[share_at(term.parts[j], r, column)]);
        payers.push_back(
            {from_source[j][r] + from_reader[j][column], 0, 1u << term.parts[j].group, false});
      }
      level_within(payers, term.groups[copy], term.limits[r * copies + copy]);
      for (std::size_t j = 0; j < shares.size(); ++j) *shares[j] = payers[j].share;
    }
  }
}

std::vector<const Dual::DualTerm*> Dual::price_supplies() {
  std::vector<const DualTerm*> changed;
  if (!has_copies(*model_)) return changed;
  copies_.emplace(*model_, state_.multipliers);
  slack_price_ = 0;
  for (std::size_t r = 0; r < state_.multipliers.size(); ++r)
    slack_price_ += state_.multipliers[r] * static_cast<double>(model_->slack[r]);
  for (DualTerm& term : terms_) {
    const std::vector<SharedCopy>& copies = model_->terms[term.index].copies;
    std::vector<SupplyPrices> prices;
    prices.reserve(copies.size());
    for (const SharedCopy& copy : copies) prices.push_back(prices_of(copy));
    if (prices == term.supplies) continue;
    term.supplies = std::move(prices);
    term.limits.resize(term.rows.size() * copies.size());
    for (std::size_t r = 0; r < term.rows.size(); ++r)
      for (std::size_t k = 0; k < copies.size(); ++k)
        term.limits[r * copies.size() + k] = limits(term, r, k);
    changed.push_back(&term);
  }
  return changed;
}

Dual::SupplyPrices Dual::prices_of(const SharedCopy& copy) const {
  SupplyPrices result;
  result.times.fill(0);
  for (auto& by_times : result.least) by_times.fill(kInfinity);
  result.own = kInfinity;
  std::size_t known = 0;
  for (std::size_t s = 0; s < copy.supplies.size(); ++s) {
    const Supply& supply = copy.supplies[s];
    const double price = copies_->price(copy.node, static_cast<int>(s));
    if (supply.own) {
      result.own = std::min(result.own, price);
      continue;
    }
    std::size_t at = 0;
    while (at < known && result.times[at] != supply.times) ++at;
    if (at == known) result.times[known++] = supply.times;
    for (unsigned set = 0; set < result.least.size(); ++set) {
      double& least = result.least[set][at];
      if (serves(supply, set)) least = std::min(least, price);
    }
  }
  return result;
}

/// Where no state serves a set, any limit is right: no choice is allowed there.
Dual::Limits Dual::limits(const DualTerm& term, std::size_t row_class, std::size_t copy) const {
  const SharedTerm& source = model_->terms[term.index];
  const int row = term.rows[row_class];
  const unsigned groups = term.groups[copy];
  const double cost = static_cast<double>(source.cost(row, source.copies[copy].column));
  const SupplyPrices& prices = term.supplies[copy];
  const bool home = source.copies[copy].home == row;
  Limits result{};
  for (unsigned set = groups; set != 0; set = (set - 1) & groups) {
    double least = home ? prices.own : kInfinity;
    for (std::size_t k = 0; k < prices.times.size(); ++k)
      least = std::min(least, prices.times[k] * cost + prices.least[set][k]);
    result[set] = least < kInfinity ? least : most_times(source.copies[copy]) * cost + slack_price_;
  }
  return result;
}

void Dual::rescale(const DualTerm& term) {
  for (std::size_t k = 0; k < term.groups.size(); ++k)
    for (std::size_t r = 0; term.groups[k] != 0 && r < term.rows.size(); ++r) rescale(term, r, k);
}

void Dual::rescale(const DualTerm& term, std::size_t row_class, std::size_t copy) {
  const unsigned groups = term.groups[copy];
  const int column = model_->terms[term.index].copies[copy].column;
  std::vector<double*>& shares = paid_;
  shares.clear();
  std::array<double, 1u << kMostGroups> of_group{};
  for (const DualTerm::TermEdge& part : term.parts) {
    if (part.column_class[column] < 0) continue;
    shares.push_back(&state_.shares[share_at(part, row_class, part.column_class[column])]);
    of_group[1u << part.group] += *shares.back();
  }
  const Limits& most = term.limits[row_class * term.groups.size() + copy];
  double scale = kInfinity, all = 0;
  for (unsigned set = groups; set != 0; set = (set - 1) & groups) {
    double sum = 0;
    for (unsigned group = 1; group <= set; group *= 2)
      if (set & group) sum += of_group[group];
    if (sum > 0) scale = std::min(scale, most[set] / sum);
    if (set == groups) all = sum;
  }
  if (scale < kInfinity && all * scale > 0) {
    for (double* share : shares) *share *= scale;
    return;
  }
  double least = kInfinity;
  for (unsigned set = groups; set != 0; set = (set - 1) & groups)
    least = std::min(least, most[set]);
  for (double* share : shares) *share = least / static_cast<double>(shares.size());
}

/// The limit in whole numbers; `prices` are those of the copy's states.
Cost Dual::exact_limit(const SharedTerm& term, const SharedCopy& copy, int row, unsigned groups,
                       const std::vector<Cost>& prices, int shift) const {
  const Cost cost = term.cost(row, copy.column) << shift;
  Cost least = kNever;
  for (std::size_t s = 0; s < copy.supplies.size(); ++s) {
    const Supply& supply = copy.supplies[s];
    if (!serves(supply, groups) || (supply.own && row != copy.home)) continue;
    least = std::min(least, (supply.own ? 0 : supply.times * cost) + prices[s]);
  }
  return least < kNever ? least : most_times(copy) * cost;
}

/// The groups of the readers that can want the column.
unsigned Dual::groups_of(const DualTerm& term, int column) const {
  unsigned groups = 0;
  for (const DualTerm::TermEdge& part : term.parts)
    if (part.column_class[column] >= 0) groups |= 1u << part.group;
  return groups;
}

/// Every row's shares of a copy are levelled, limited and scaled per set of groups.
double Dual::cells_of_copies() const {
  double cells = 0;
  for (const DualTerm& term : terms_) {
    const auto rows = static_cast<double>(term.rows.size());
    for (std::size_t k = 0; k < term.groups.size(); ++k) {
      const SharedCopy& copy = model_->terms[term.index].copies[k];
      const double sets = std::ldexp(1, std::popcount(term.groups[k])) - 1;
      double payers = 0;
      for (const DualTerm::TermEdge& part : term.parts)
        payers += part.column_class[copy.column] >= 0;
      cells += rows *
               (kTuning.dual_copies.row_of_copy_cells +
                sets * (kTuning.dual_copies.set_cells + kTuning.dual_copies.payer_cells * payers));
      cells += kTuning.dual_copies.supply_cells * static_cast<double>(copy.supplies.size());
    }
  }
  return cells;
}

/// Usages are priced, the choice's are summed up, and the best state is kept.
double Dual::cells_of_rows() const {
  if (model_->slack.empty()) return 0;
  auto cells = static_cast<double>(4 * model_->slack.size() + state_.totals.size() +
                                   state_.messages.size() + state_.shares.size());
  for (const ModelNode& node : model_->nodes)
    for (const Piece& piece : node.pieces)
      cells += kTuning.dual_copies.piece_cells + static_cast<double>(piece.amounts.size());
  return cells;
}

/// Shares in whole numbers that sum to no more than the cost, or than what
/// serves the readers' groups.
void Dual::round_shares(Exact& exact) const {
  exact.shares.resize(edges_.size());
  const WholeSums upto = whole_sums(exact.shift);
  for (const DualTerm& term : terms_) {
    const SharedTerm& source = model_->terms[term.index];
    for (const DualTerm::TermEdge& part : term.parts)
      exact.shares[part.edge].resize(edges_[part.edge].lines_a * edges_[part.edge].lines_b);
    for (int c = 0; c < source.columns; ++c) {
      const SharedCopy* copy = term.copy_at[c] < 0 ? nullptr : &source.copies[term.copy_at[c]];
      const unsigned groups = groups_of(term, c);
      const std::vector<Cost> prices =
          copy ? exact_prices(copy->node, upto, exact.shift) : std::vector<Cost>{};
      for (std::size_t r = 0; r < term.rows.size(); ++r) {
        std::array<Cost, 1u << kMostGroups> left;
        left.fill(kNever);
        for (unsigned set = groups; set != 0; set = (set - 1) & groups)
          left[set] = copy ? exact_limit(source, *copy, term.rows[r], set, prices, exact.shift)
                           : source.cost(term.rows[r], c) << exact.shift;
        round_shares(term, static_cast<int>(r), c, left, exact);
      }
    }
  }
}

void Dual::round_shares(const DualTerm& term, int row_class, int column,
                        std::array<Cost, 1u << kMostGroups>& left, Exact& exact) const {
  const auto row = static_cast<std::size_t>(row_class);
  for (const DualTerm::TermEdge& part : term.parts) {
    const int wanted = part.column_class[column];
    if (wanted < 0) continue;
    const unsigned group = 1u << part.group;
    Cost most = kNever;
    for (unsigned set = 1; set < left.size(); ++set)
      if (set & group) most = std::min(most, left[set]);
    const double real = state_.shares[share_at(part, row, wanted)];
    const Cost whole = std::clamp<Cost>(std::llround(std::ldexp(real, exact.shift)), 0, most);
    for (unsigned set = 1; set < left.size(); ++set)
      if (set & group) left[set] -= whole;
    const DualEdge& edge = edges_[part.edge];
    exact.shares[part.edge]
                [part.from_a ? row * edge.lines_b + wanted : wanted * edge.lines_b + row] = whole;
  }
}

}  // namespace alpa::ilp
