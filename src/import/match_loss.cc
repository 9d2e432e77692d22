// src/import/match_loss.cc — cross entropy with labels: log Σ exp(x) - x[label]
#include <algorithm>
#include <string_view>

#include "src/import/match.h"

namespace alpa::stablehlo {
namespace {

/// v behind operations that only change extents of 1, and behind the NaN that jax puts where a
/// position is outside.
int unmasked(const Matching& m, int v) {
  for (;;) {
    const int base = m.spread(v).base;
    if (const FlatOperation* const choice = m.made_by(base, "stablehlo.select")) {
      const auto otherwise = m.known(m.spread(choice->operands[2]).base);
      if (otherwise && *otherwise != *otherwise) {
        v = choice->operands[1];
        continue;
      }
    }
    const FlatOperation* const one = m.made_by(base, "stablehlo.gather");
    if (!one || !m.known(one->operands[1])) return base;
    const FlatValue &whole = m.value(one->operands[0]), &part = m.value(base);
    if (num_elements(whole.type.shape) != num_elements(part.type.shape)) return base;
    v = one->operands[0];
  }
}

/// Of every row of x the number at the row's label.
struct Picked {
  int x = -1, labels = -1;
  bool is_sum = false;  ///< of products with 1 at the label: 0 where there is no such label
};

/// Labels [...] of a tensor like `hot` that is 1 at a row's label and 0 elsewhere; -1: none.
int hot_labels(const Matching& m, int hot) {
  const FlatOperation* const number = m.made_by(hot, "stablehlo.convert");
  const FlatOperation* const test =
      number ? m.made_by(number->operands[0], "stablehlo.compare") : nullptr;
  if (!test || test->source->attribute("comparison_direction").text != "EQ") return -1;
  const int labels = m.rows(test->operands[0], hot);
  const bool is_i32 = labels >= 0 && m.value(labels).type.element == "i32";
  return is_i32 && m.counts_along(test->operands[1], m.rank(hot) - 1) ? labels : -1;
}

Picked picked(const Matching& m, int v) {
  const FlatOperation* const gather = m.made_by(unmasked(m, v), "stablehlo.gather");
  if (!gather) {
    Picked found;
    const int products = m.reduced(v, "stablehlo.add");
    const FlatOperation* const product =
        products < 0 ? nullptr : m.made_by(products, "stablehlo.multiply");
    either_way(product, [&](int x, int hot) {
      found = {x, hot_labels(m, hot), true};
      return found.labels >= 0;
    });
    return found.labels < 0 ? Picked{} : found;
  }
  const int x = gather->operands[0];
  const Attribute& numbers = gather->source->attribute("dimension_numbers");
  const std::vector<std::int64_t> last = {m.rank(x) - 1};
  const Shape& whole = m.shape(x);
  const bool one_a_row =
      num_elements(m.shape(v)) * whole.back() == num_elements(whole) &&
      num_elements(m.shape(gather->operands[1])) * whole.back() == num_elements(whole);
  const bool along_last = field(numbers, "start_index_map") == last &&
                          field(numbers, "operand_batching_dims").size() + 1 == whole.size();
  return one_a_row && along_last && whole.back() > 0 ? Picked{x, gather->operands[1]} : Picked{};
}

/// log Σ exp(x - m): x and m; the sum, log's operand, may be inside of an `abs`.
struct LogSum {
  int x = -1, shift = -1, exponentials = -1;
};

LogSum log_sum(const Matching& m, int v) {
  const FlatOperation* const log = m.made_by(v, "stablehlo.log");
  if (!log) return {};
  int total = m.spread(log->operands[0]).base;
  if (const FlatOperation* const abs = m.made_by(total, "stablehlo.abs"))
    total = m.spread(abs->operands[0]).base;
  const int exponentials = m.reduced(total, "stablehlo.add");
  const FlatOperation* const power =
      exponentials < 0 ? nullptr : m.made_by(exponentials, "stablehlo.exponential");
  const FlatOperation* const shifted =
      power ? m.made_by(power->operands[0], "stablehlo.subtract") : nullptr;
  if (!shifted) return {};
  return {shifted->operands[0], m.rows(shifted->operands[1], shifted->operands[0]), exponentials};
}

/// Numbers: what the loss is multiplied by, and 1 if rows without a label have loss 0.
bool replace_loss(Matching& m, FlatOperation& operation, const Picked& of, int exponentials,
                  double sign) {
  return replace(m, operation,
                 {.kind = "alpa.cross_entropy",
                  .operands = {of.x, of.labels},
                  .results = {},
                  .numbers = {sign, of.is_sum ? 1.0 : 0.0}},
                 exponentials);
}

/// (log Σ exp(x - m) + m) - x[label], as optax writes it.
bool match_difference(Matching& m, FlatOperation& operation) {
  if (operation.kind != "stablehlo.subtract") return false;
  const Picked found = picked(m, operation.operands[1]);
  return found.x >= 0 && !found.is_sum &&
         either_way(m.made_by(m.spread(operation.operands[0]).base, "stablehlo.add"),
                    [&](int log, int shift) {
                      const LogSum sum = log_sum(m, log);
                      return sum.x >= 0 && sum.x == m.unconverted(found.x) &&
                             m.spread(shift).base == sum.shift &&
                             replace_loss(m, operation, found, sum.exponentials, 1);
                    });
}

/// ((x - m) - log Σ exp(x - m))[label]: jax.nn.log_softmax and a lookup or a sum, or its negative.
bool match_log_softmax(Matching& m, FlatOperation& operation) {
  constexpr std::string_view kLast[] = {"stablehlo.negate", "stablehlo.select", "stablehlo.gather",
                                        "stablehlo.reduce", "stablehlo.reshape"};
  if (std::ranges::find(kLast, operation.kind) == std::end(kLast)) return false;
  const bool is_negative = operation.kind == kLast[0];
  Picked found = picked(m, is_negative ? operation.operands[0] : operation.results[0]);
  const FlatOperation* const logs = m.made_by(found.x, "stablehlo.subtract");
  const FlatOperation* const shifted =
      logs ? m.made_by(logs->operands[0], "stablehlo.subtract") : nullptr;
  if (!shifted) return false;
  const LogSum sum = log_sum(m, m.spread(logs->operands[1]).base);
  found.x = sum.x;
  return sum.x >= 0 && sum.x == shifted->operands[0] &&
         m.rows(shifted->operands[1], sum.x) == sum.shift &&
         replace_loss(m, operation, found, sum.exponentials, is_negative ? 1 : -1);
}

}  // namespace

bool match_cross_entropy(Matching& m, FlatOperation& operation) {
  return match_difference(m, operation) || match_log_softmax(m, operation);
}

}  // namespace alpa::stablehlo
