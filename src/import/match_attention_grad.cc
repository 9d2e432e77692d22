// src/import/match_attention_grad.cc — the gradient of attention as a whole step of jax has it
#include <algorithm>
#include <array>
#include <cmath>

#include "src/import/emit.h"
#include "src/import/match_attention.h"

namespace alpa::stablehlo {
namespace {

using Integers = std::vector<std::int64_t>;

/// Operations that read v and are read themselves.
std::vector<FlatOperation*> readers(Matching& m, int v) {
  std::vector<FlatOperation*> found;
  for (FlatOperation& operation : m.flat.operations)
    if (std::ranges::count(operation.operands, v) > 0 &&
        std::ranges::any_of(operation.results,
                            [&](int r) { return m.uses[static_cast<std::size_t>(r)] > 0; }))
      found.push_back(&operation);
  return found;
}

/// The result of the only reader of this kind that fits; -1: none does.
int read_by(Matching& m, int v, std::string_view kind,
            const std::function<bool(const FlatOperation&)>& fits) {
  for (const FlatOperation* reader : readers(m, v))
    if (reader->kind == kind && fits(*reader)) return reader->results[0];
  return -1;
}

/// A product that v is operand `at` of.
struct Found {
  FlatOperation* operation = nullptr;
  Product product;
  int at = 0;
};

/// The product of v and `other`, any one if that is -1, which sums dimension `summed` of v.
Found product_with(Matching& m, int v, int other, std::int64_t summed,
                   const FlatOperation* not_this = nullptr) {
  for (FlatOperation* reader : readers(m, v)) {
    Found found{.operation = reader, .product = {}};
    if (reader == not_this || reader->kind != "stablehlo.dot_general" ||
        !find_product_of(m, reader->results[0], found.product))
      continue;
    for (int at : {0, 1})
      if (found.product.operand[at] == v && found.product.summed[at][0] == summed &&
          (other < 0 || found.product.operand[1 - at] == other)) {
        found.at = at;
        return found;
      }
  }
  return {};
}

/// What a sum over dimensions of extent 1, or a broadcast, was made of; `negated` where it is the
/// negative of that.
int plain_rows(const Matching& m, int v, bool& negated) {
  for (;;) {
    v = m.spread(v).base;
    const FlatOperation* const minus = m.made_by(v, "stablehlo.negate");
    const FlatOperation* const sum = m.made_by(v, "stablehlo.reduce");
    const bool trivial =
        sum && combiner(*sum->source) == "stablehlo.add" && m.known(sum->operands[1]) == 0.0 &&
        m.value(sum->operands[0]).type.shape.size() == m.value(v).type.shape.size() + 1 &&
        num_elements(m.shape(sum->operands[0])) == num_elements(m.shape(v));
    if (!minus && !trivial) return v;
    negated ^= minus != nullptr;
    v = (minus ? minus : sum)->operands[0];
  }
}

/// -Σ dp / l² · e of each row, as jax differentiates e / l.
bool is_row_term(const Matching& m, int v, int dp, const Attention& a) {
  bool negated = false;
  const int products = m.reduced(plain_rows(m, v, negated), "stablehlo.add");
  return negated && products >= 0 &&
         either_way(m.made_by(products, "stablehlo.multiply"), [&](int x, int e) {
           return e == a.exponentials &&
                  either_way(m.made_by(x, "stablehlo.multiply"), [&](int of, int inverse) {
                    const FlatOperation* const one =
                        m.made_by(m.rows(inverse, dp), "stablehlo.divide");
                    const FlatOperation* const square =
                        one ? m.made_by(one->operands[1], "stablehlo.multiply") : nullptr;
                    return of == dp && square && m.known(one->operands[0]) == 1.0 &&
                           m.spread(square->operands[0]).base == a.total &&
                           m.spread(square->operands[1]).base == a.total;
                  });
         });
}

/// The gradient of the scores' product, of that of the probabilities; -1: not.
int scores_gradient(Matching& m, int dp, const Attention& a) {
  const int ratio = read_by(m, dp, "stablehlo.divide", [&](const FlatOperation& by) {
    return by.operands[0] == dp && m.rows(by.operands[1], dp) == a.total;
  });
  const int sum = ratio < 0 ? -1 : read_by(m, ratio, "stablehlo.add", [&](const FlatOperation& by) {
    return either_way(&by,
                      [&](int x, int row) { return x == ratio && is_row_term(m, row, dp, a); });
  });
  int found = sum < 0 ? -1 : read_by(m, sum, "stablehlo.multiply", [&](const FlatOperation& by) {
    return either_way(&by, [&](int x, int e) { return x == sum && e == a.exponentials; });
  });
  if (found >= 0 && a.mask >= 0)
    found = read_by(m, found, "stablehlo.select", [&](const FlatOperation& by) {
      return by.operands[0] == a.mask && by.operands[1] == found && m.known(by.operands[2]) == 0.0;
    });
  if (found < 0 || a.scale == 1) return found;
  for (const FlatOperation* by : readers(m, found)) {
    double number = 0;
    if (scaled(m, by->results[0], number) == found && std::abs(number / a.scale - 1) < 1e-6)
      return by->results[0];
  }
  return -1;
}

/// The attention gets its log-sum-exp as a second result, the first of the three products all three
/// gradients; the other two products vanish.
bool replace_all(Matching& m, FlatOperation& operation, const FlatOperation& by, const Attention& a,
                 const std::array<Found, 3>& products) {
  const Found& dv = products[2];
  const int at = 1 - dv.at, dy = dv.product.operand[at], y = operation.results[0],
            lse = static_cast<int>(m.flat.values.size());
  const auto& [q, k] = a.scores.operand;
  FlatOperation gradient{.kind = "alpa.attention_gradient",
                         .operands = {dy, q, k, a.values(), y, lse},
                         .results = {},
                         .numbers = by.numbers};
  gradient.operands.insert(gradient.operands.end(), by.operands.begin() + 3, by.operands.end());
  gradient.dims = {heads_order(dv.product.batch[at], static_cast<int>(dv.product.summed[at][0]),
                               dv.product.free[at], a.swapped),
                   by.dims[0], by.dims[1], by.dims[2], by.dims[3]};
  FlatOperation* const first =
      std::min({products[0].operation, products[1].operation, products[2].operation});
  std::vector<int> results;
  std::vector<Change> changes = {{&operation, by}};
  for (const Found& found : products) {
    gradient.dims.push_back(result_order(found.product, found.at, a.swapped));
    results.push_back(found.operation->results[0]);
  }
  for (const Found& found : products)
    changes.push_back({found.operation, found.operation == first ? gradient : FlatOperation{}});
  m.uses.push_back(1);
  m.flat.values.push_back({.type = {"f32", {}}, .place = operation.source->place});
  FlatValue& rows = m.flat.values.back();
  if (!replace(m, changes, a.exponentials)) {
    m.flat.values.pop_back(), m.uses.pop_back();
    return false;
  }
  if (m.value(q).type.element == "f64") rows.type.element = "f64";
  const Shape& of_q = m.shape(q);
  for (int d : {0, 2, 1})  // [B, H, T]
    rows.type.shape.push_back(
        by.dims[0].size() == 3 && d == 2
            ? 1
            : of_q[static_cast<std::size_t>(by.dims[0][static_cast<std::size_t>(d)])]);
  operation.results.push_back(lse);
  first->results = results;
  for (int result : results)
    m.flat.values[static_cast<std::size_t>(result)].producer =
        static_cast<int>(first - m.flat.operations.data());
  return true;
}

bool counts(const Integers& list) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

}  // namespace

bool replace_with_gradient(Matching& m, FlatOperation& operation, const FlatOperation& by,
                           const Attention& a) {
  const std::int64_t keys = m.rank(a.probabilities()) - 1, rows = keys - 1;
  const Found dv = product_with(m, a.probabilities(), -1, rows, &operation);
  if (!dv.operation || !counts(dv.product.batch[dv.at])) return false;
  const int at = 1 - dv.at, dy = dv.product.operand[at];
  const Found dp = product_with(m, dy, a.values(), dv.product.free[at], dv.operation);
  const int of_values = 1 - a.probabilities_at;
  if (!dp.operation || dp.at != 0 || dp.product.batch[0] != dv.product.batch[at] ||
      dp.product.batch[1] != a.out.batch[of_values] ||
      dp.product.summed[1][0] != a.out.free[of_values])
    return false;
  const int ds = scores_gradient(m, dp.operation->results[0], a);
  if (ds < 0) return false;
  const auto& [q, k] = a.scores.operand;
  const Found dq = product_with(m, ds, k, keys), dk = product_with(m, ds, q, rows);
  for (const auto& [found, other] : {std::pair(&dq, 1), std::pair(&dk, 0)})
    if (!found->operation || !counts(found->product.batch[found->at]) ||
        found->product.batch[1 - found->at] != a.scores.batch[other] ||
        found->product.summed[1 - found->at][0] != a.scores.free[other])
      return false;
  return replace_all(m, operation, by, a, {dq, dk, dv});
}

}  // namespace alpa::stablehlo
