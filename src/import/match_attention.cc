// src/import/match_attention.cc — softmax(scale · q kᵀ) v, with masks and shared key heads
#include <algorithm>
#include <numeric>

#include "src/import/match_attention.h"

namespace alpa::stablehlo {
namespace {

using Integers = std::vector<std::int64_t>;

/// softmax over the last dimension: its operand; `exponentials`, and their `total`.
int softmax_of(const Matching& m, int v, int& exponentials, int& total) {
  const FlatOperation* const ratio = m.made_by(v, "stablehlo.divide");
  const FlatOperation* const power =
      ratio ? m.made_by(ratio->operands[0], "stablehlo.exponential") : nullptr;
  if (!power) return -1;
  exponentials = power->results[0];
  total = m.rows(ratio->operands[1], exponentials);
  const FlatOperation* const shifted = m.made_by(power->operands[0], "stablehlo.subtract");
  if (total < 0 || m.reduced(total, "stablehlo.add") != exponentials || !shifted) return -1;
  const int x = shifted->operands[0], most = m.rows(shifted->operands[1], x);
  return most >= 0 && m.reduced(most, "stablehlo.maximum") == x ? x : -1;
}

/// What a mask lets a query see.
struct Mask {
  bool causal = false;
  int keys = -1;  ///< a mask [B, S], B being batch dimension `batch` of the scores
  int batch = 0;
  int choice = -1;  ///< as it is broadcast to the scores
};

/// What v was before it was broadcast to `outer.base`, as a part of the scores.
Spread within(const Matching& m, int v, const Spread& outer) {
  Spread inner = m.spread(v);
  for (int& d : inner.dims) d = d < 0 ? -1 : outer.dims[static_cast<std::size_t>(d)];
  return inner;
}

/// True if the select `made` is 1 where its mask holds and 0 elsewhere.
bool is_one_where(const Matching& m, const FlatOperation* made) {
  return made && m.known(made->operands[1]) == 1.0 && m.known(made->operands[2]) == 0.0 &&
         m.shape(made->operands[0]) == m.shape(made->results[0]);
}

/// A mask before it was made a number and compared with 0, as flax and haiku do.
Spread plain_mask(const Matching& m, const Spread& from) {
  const FlatOperation* const test = m.made_by(from.base, "stablehlo.compare");
  if (!test || test->source->attribute("comparison_direction").text != "NE" ||
      m.known(m.spread(test->operands[1]).base) != 0.0)
    return from;
  const Spread number = within(m, test->operands[0], from);
  const FlatOperation* const choice = m.made_by(number.base, "stablehlo.select");
  if (is_one_where(m, choice)) return within(m, choice->operands[0], number);
  const FlatOperation* const made = m.made_by(number.base, "stablehlo.convert");
  return made && m.value(made->operands[0]).type.is_mask() ? within(m, made->operands[0], number)
                                                           : from;
}

/// Query ≥ key, both counted from 0.
bool is_causal(const Matching& m, const Spread& from, int rank) {
  const FlatOperation* const order = m.made_by(from.base, "stablehlo.compare");
  return order && order->source->attribute("comparison_direction").text == "GE" &&
         m.counts_along(order->operands[0], rank - 2, &from.dims) &&
         m.counts_along(order->operands[1], rank - 1, &from.dims);
}

/// A mask that is broadcast to scores of this rank.
bool read_mask(const Matching& m, const Spread& given, int rank, Mask& mask) {
  const Spread from = plain_mask(m, given);
  if (is_causal(m, from, rank)) return mask.causal = true;
  const FlatOperation* const choice = m.made_by(from.base, "stablehlo.select");
  if (is_one_where(m, choice))
    return read_mask(m, within(m, choice->operands[0], from), rank, mask);
  if (const FlatOperation* const both = m.made_by(from.base, "stablehlo.and"))
    return read_mask(m, within(m, both->operands[0], from), rank, mask) &&
           read_mask(m, within(m, both->operands[1], from), rank, mask);
  // One mask of keys for each index of a batch dimension.
  std::vector<int> dims;
  for (int d : from.dims)
    if (d >= 0) dims.push_back(d);
  if (dims.size() != 2 || dims[0] >= rank - 2 || dims[1] != rank - 1 || mask.keys >= 0)
    return false;
  mask.keys = from.base, mask.batch = dims[0];
  return true;
}

/// The scores behind a mask of large negative numbers.
int unmasked_scores(const Matching& m, int v, Mask& mask) {
  const FlatOperation* const choice = m.made_by(v, "stablehlo.select");
  if (!choice) return v;
  const auto otherwise = m.known(m.spread(choice->operands[2]).base);
  constexpr double kHidden = -1e4;
  if (!otherwise || !(*otherwise <= kHidden) ||
      !read_mask(m, m.spread(choice->operands[0]), m.rank(v), mask))
    return -1;
  mask.choice = choice->operands[0];
  return choice->operands[1];
}

/// Keys or values before each head was repeated for several query heads: [B, S, K, D] from
/// [B, S, K, G, D], in any order of dimensions; v itself if they were not.
int unrepeated(const Matching& m, int v, std::int64_t head) {
  const FlatOperation* const joined = m.made_by(v, "stablehlo.reshape");
  const FlatOperation* const repeats =
      joined ? m.made_by(joined->operands[0], "stablehlo.broadcast_in_dim") : nullptr;
  if (!repeats || m.rank(repeats->operands[0]) != m.rank(v)) return v;
  const Integers dims = repeats->source->integers("broadcast_dimensions");
  for (std::int64_t d = 0; d < m.rank(v); ++d)
    if (dims[static_cast<std::size_t>(d)] != (d <= head ? d : d + 1)) return v;
  Shape expected = m.shape(repeats->operands[0]);
  const Shape& wide = m.shape(joined->operands[0]);
  expected[static_cast<std::size_t>(head)] *= wide[static_cast<std::size_t>(head) + 1];
  return expected == m.shape(v) ? repeats->operands[0] : v;
}

}  // namespace

bool find_product_of(const Matching& m, int v, Product& p) {
  const FlatOperation* const made = m.made_by(v, "stablehlo.dot_general");
  if (!made || made->operands.size() != 2) return false;
  const Attribute& dims = made->source->attribute("dot_dimension_numbers");
  for (int i : {0, 1}) {
    const std::string side = i == 0 ? "lhs" : "rhs";
    p.operand[i] = made->operands[static_cast<std::size_t>(i)];
    p.batch[i] = field(dims, side + "_batching_dimensions");
    p.summed[i] = field(dims, side + "_contracting_dimensions");
    if (p.summed[i].size() != 1) return false;
    for (int d = 0; d < m.rank(p.operand[i]); ++d)
      if (std::ranges::count(p.batch[i], d) == 0 && p.summed[i][0] != d) {
        if (p.free[i] >= 0) return false;
        p.free[i] = d;
      }
    if (p.free[i] < 0 || p.batch[i].size() != p.batch[0].size()) return false;
  }
  return true;
}

std::vector<int> heads_order(const Integers& batch, int row, int width, bool swapped) {
  std::vector<int> order(batch.begin(), batch.end());
  if (swapped) std::swap(order[0], order[1]);
  order.insert(order.begin() + 1, row);
  order.push_back(width);
  return order;
}

std::vector<int> result_order(const Product& product, int at, bool swapped) {
  Integers batch(product.batch[0].size());
  std::iota(batch.begin(), batch.end(), 0);
  const int n = static_cast<int>(batch.size());
  return heads_order(batch, n + at, n + 1 - at, swapped);
}

/// Operands are q, k, v and maybe a mask of keys. numbers: the scale, and whether it is causal;
/// dims: the orders of q, k, v and the result.
bool match_attention(Matching& m, FlatOperation& operation) {
  Attention a;
  Product &out = a.out, &scores = a.scores;
  if (operation.kind != "stablehlo.dot_general" || !find_product_of(m, operation.results[0], out))
    return false;
  for (int p : {0, 1}) {
    const int values = 1 - p;
    const int masked = softmax_of(m, out.operand[p], a.exponentials, a.total);
    const int rank = m.rank(out.operand[p]);
    if (masked < 0 || out.summed[p][0] != rank - 1 || out.free[p] != rank - 2) continue;
    Mask mask;
    double scale = 1;
    const int scaled_scores = unmasked_scores(m, masked, mask);
    if (scaled_scores < 0) continue;
    const int inner = scaled(m, scaled_scores, scale);
    if (inner < 0) scale = 1;
    if (!find_product_of(m, inner < 0 ? scaled_scores : inner, scores)) continue;
    const std::size_t batches = scores.batch[0].size();
    if (batches == 0 || batches > 2 || out.batch[p].size() != batches) continue;
    for (std::size_t i = 0; i < batches; ++i)
      if (out.batch[p][i] != static_cast<std::int64_t>(i)) return false;
    const bool swapped = mask.keys >= 0 && mask.batch == 1;
    const auto width = [&](int i) { return static_cast<int>(scores.summed[i][0]); };
    FlatOperation by{.kind = "alpa.attention", .operands = {scores.operand[0]}, .results = {}};
    const std::int64_t head = static_cast<std::int64_t>(swapped ? 0 : batches - 1);
    const int keys = batches == 2 ? unrepeated(m, scores.operand[1],
                                               scores.batch[1][static_cast<std::size_t>(head)])
                                  : scores.operand[1],
              content = batches == 2 ? unrepeated(m, out.operand[values],
                                                  out.batch[values][static_cast<std::size_t>(head)])
                                     : out.operand[values];
    const bool shared = m.shape(keys) != m.shape(scores.operand[1]) &&
                        m.shape(content) != m.shape(out.operand[values]);
    by.operands.push_back(shared ? keys : scores.operand[1]);
    by.operands.push_back(shared ? content : out.operand[values]);
    if (mask.keys >= 0) by.operands.push_back(mask.keys);
    by.dims = {heads_order(scores.batch[0], scores.free[0], width(0), swapped),
               heads_order(scores.batch[1], scores.free[1], width(1), swapped),
               heads_order(out.batch[values], static_cast<int>(out.summed[values][0]),
                           out.free[values], swapped)};
    by.dims.push_back(result_order(out, p, swapped));
    by.numbers = {scale, mask.causal ? 1.0 : 0.0};
    const auto extent = [&](int v, int d) { return m.shape(v)[static_cast<std::size_t>(d)]; };
    const bool square =
        extent(scores.operand[0], scores.free[0]) == extent(scores.operand[1], scores.free[1]);
    if ((mask.causal && !square) ||
        extent(out.operand[values], out.free[values]) != extent(scores.operand[0], width(0)))
      continue;
    a.probabilities_at = p, a.mask = mask.choice, a.scale = scale, a.swapped = swapped;
    if (replace(m, operation, by, a.exponentials) || replace_with_gradient(m, operation, by, a))
      return true;
  }
  return false;
}

}  // namespace alpa::stablehlo
