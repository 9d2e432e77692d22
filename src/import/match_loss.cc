// src/import/match_loss.cc — cross entropy with labels: log Σ exp(x) - x[label]
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

/// x[label] of every row; the gather is nullptr if v is something else.
const FlatOperation* picked(const Matching& m, int v) {
  const FlatOperation* const gather = m.made_by(unmasked(m, v), "stablehlo.gather");
  if (!gather) return nullptr;
  const int x = gather->operands[0];
  const Attribute& numbers = gather->source->attribute("dimension_numbers");
  const std::vector<std::int64_t> last = {m.rank(x) - 1};
  const Shape& whole = m.shape(x);
  const bool one_a_row =
      num_elements(m.shape(v)) * whole.back() == num_elements(whole) &&
      num_elements(m.shape(gather->operands[1])) * whole.back() == num_elements(whole);
  const bool along_last = field(numbers, "start_index_map") == last &&
                          field(numbers, "operand_batching_dims").size() + 1 == whole.size();
  return one_a_row && along_last && whole.back() > 0 ? gather : nullptr;
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

bool replace_loss(Matching& m, FlatOperation& operation, int x, int ids, int exponentials) {
  return replace(m, operation, {.kind = "alpa.cross_entropy", .operands = {x, ids}, .results = {}},
                 exponentials);
}

/// (log Σ exp(x - m) + m) - x[label], as optax writes it.
bool match_difference(Matching& m, FlatOperation& operation) {
  if (operation.kind != "stablehlo.subtract") return false;
  const FlatOperation* const gather = picked(m, operation.operands[1]);
  return gather && either_way(m.made_by(m.spread(operation.operands[0]).base, "stablehlo.add"),
                              [&](int log, int shift) {
                                const LogSum sum = log_sum(m, log);
                                return sum.x >= 0 && sum.x == m.unconverted(gather->operands[0]) &&
                                       m.spread(shift).base == sum.shift &&
                                       replace_loss(m, operation, gather->operands[0],
                                                    gather->operands[1], sum.exponentials);
                              });
}

/// -((x - m) - log Σ exp(x - m))[label]: jax.nn.log_softmax and a lookup.
bool match_log_softmax(Matching& m, FlatOperation& operation) {
  if (operation.kind != "stablehlo.negate") return false;
  const FlatOperation* const gather = picked(m, operation.operands[0]);
  const FlatOperation* const logs =
      gather ? m.made_by(gather->operands[0], "stablehlo.subtract") : nullptr;
  const FlatOperation* const shifted =
      logs ? m.made_by(logs->operands[0], "stablehlo.subtract") : nullptr;
  if (!shifted) return false;
  const LogSum sum = log_sum(m, m.spread(logs->operands[1]).base);
  return sum.x >= 0 && sum.x == shifted->operands[0] &&
         m.rows(shifted->operands[1], sum.x) == sum.shift &&
         replace_loss(m, operation, sum.x, gather->operands[1], sum.exponentials);
}

}  // namespace

bool match_cross_entropy(Matching& m, FlatOperation& operation) {
  return match_difference(m, operation) || match_log_softmax(m, operation);
}

}  // namespace alpa::stablehlo
