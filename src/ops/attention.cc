// src/ops/attention.cc — y = softmax(scale · q kᵀ) v of every head, its gradient, and y of a cache
#include <algorithm>
#include <cmath>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/attention_shape.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Factors of both records.
struct Heads {
  std::vector<Factor> factors;
  DimFactors q, k, rows, mask;   ///< rows: [B, H, T]
  std::vector<Reduced> in_keys;  ///< what is summed into gradients of keys
};

/// Query heads are key heads × group. Where one of the two is 1, they are one factor, which can be
/// split unevenly.
Heads heads_of(const Shape& q, const Shape& k) {
  enum : int { batch, query, key, width, head, group };
  const bool compound = k[2] > 1 && q[2] > k[2], shared = k[2] == 1 && q[2] > 1;
  Heads h;
  h.factors = {{q[0]}, {q[1]}, {k[1], true}, {q[3], true}};
  h.factors.push_back({compound ? k[2] : q[2], false, compound});
  if (compound) h.factors.push_back({q[2] / k[2], true});
  const std::vector<int> query_heads =
      compound ? std::vector<int>{head, group} : std::vector<int>{head};
  h.q = {{batch}, {query}, query_heads, {width}};
  h.k = {{batch}, {key}, shared ? std::vector<int>{} : std::vector<int>{head}, {width}};
  h.rows = {{batch}, query_heads, {query}};
  h.mask = {{batch}, {key}};
  h.in_keys = {{query}};
  if (shared) h.in_keys.push_back({head});
  return h;
}

void require_heads(const OpQuery& query, const TensorType& q, const TensorType& k,
                   const TensorType& v) {
  const std::span<const TensorType> all = query.operands;
  if (!is_floating(q.dtype) || k.dtype != q.dtype || v != k)
    fail("attention: q, k and v must have one floating type, and k and v one shape ({}); cast them",
         to_string(all));
  const bool shaped = q.rank() == 4 && k.rank() == 4 && q.shape[0] == k.shape[0] &&
                      q.shape[3] == k.shape[3] && q.shape[2] % k.shape[2] == 0;
  if (!shaped)
    fail(
        "attention: q must be [B, T, H, D], k and v [B, S, K, D], and K must divide H ({}); "
        "reshape "
        "features to heads",
        to_string(all));
  if (q.shape[3] > kernels::kMostHeadWidth)
    fail("attention: heads are {} wide, but at most {} is possible ({}); use more heads",
         q.shape[3], kernels::kMostHeadWidth, to_string(all));
  query.attributes.real("scale");
  if (query.attributes.contains("window")) query.attributes.integer("window");
  if (query.attributes.contains("soft_cap")) query.attributes.real("soft_cap");
}

/// Operands behind the others: a key mask (1), segments of queries and keys (2), or both (3).
bool has_mask(std::size_t more) { return more % 2 == 1; }
bool has_segments(std::size_t more) { return more >= 2; }

void require_shapes(const OpQuery& query, std::size_t q_at, std::size_t others) {
  const std::span<const TensorType> all = query.operands;
  if (all.size() < others || all.size() > others + 3)
    fail("{}: needs {} operands and maybe a key mask and segments ({})", query.op->name, others,
         to_string(all));
  const TensorType& k = all[q_at + 1];
  require_heads(query, all[q_at], k, all[q_at + 2]);
  const TensorType mask{u8, {k.shape[0], k.shape[1]}};
  if (has_mask(all.size() - others) && all[others] != mask)
    fail("attention: the key mask must be {}, not {}", to_string(mask), to_string(all[others]));
  if (has_segments(all.size() - others)) {
    const TensorType of_queries{i32, {all[q_at].shape[0], all[q_at].shape[1]}},
        of_keys{i32, mask.shape};
    if (all[all.size() - 2] != of_queries || all.back() != of_keys)
      fail("attention: the segments must be {} of queries and {} of keys, not {} and {}",
           to_string(of_queries), to_string(of_keys), to_string(all[all.size() - 2]),
           to_string(all.back()));
  }
  query.attributes.integer("causal");
  if (query.attributes.real("dropout") > 0) query.attributes.integer(kStreamAttribute);
}

/// FLOPs per point of q, k and the width. A window leaves out points: of those under the diagonal,
/// the share w (2 S - w) / S² of S keys is computed with a window w.
double flops_of(const OpQuery& query, const TensorType& k) {
  const double flops = query.op->flops_per_point;
  if (!query.attributes.contains("window")) return flops;
  const double share = static_cast<double>(query.attributes.integer("window")) /
                       static_cast<double>(std::max<std::int64_t>(1, k.shape[1]));
  return share < 1 ? flops * share * (2 - share) : flops;
}

/// Adds the dimensions of a key mask and of segments to the rule.
void add_masks(Rule& rule, const Heads& h, std::size_t more) {
  if (has_mask(more)) rule.operands.push_back(h.mask);
  if (!has_segments(more)) return;
  rule.operands.push_back({h.q[0], h.q[1]});
  rule.operands.push_back(h.mask);
}

/// The factors of attention's scores: all but the width of a head.
std::vector<int> scores_of(const std::vector<Factor>& factors) {
  std::vector<int> scores;
  for (int f = 0; f < static_cast<int>(factors.size()); ++f)
    if (f != 3) scores.push_back(f);
  return scores;
}

/// (q, k, v, maybe mask, maybe segments of queries and keys) -> (y, lse)
Rule attention_rule(const OpQuery& query) {
  require_shapes(query, 0, 3);
  const Heads h = heads_of(query.operands[0].shape, query.operands[1].shape);
  Rule rule{.factors = h.factors,
            .operands = {h.q, h.k, h.k},
            .results = {h.q, h.rows},
            .flops_per_point = flops_of(query, query.operands[1]),
            .scores = scores_of(h.factors)};
  add_masks(rule, h, query.operands.size() - 3);
  return rule;
}

/// (q, k, v, positions) -> y
Rule cached_attention_rule(const OpQuery& query) {
  const std::span<const TensorType> all = query.operands;
  if (all.size() != 4) fail("cached_attention: needs q, k, v and positions ({})", to_string(all));
  require_heads(query, all[0], all[1], all[2]);
  if (all[3] != TensorType{i32, {all[0].shape[0]}})
    fail("attention: the positions must be {}, not {}",
         to_string(TensorType{i32, {all[0].shape[0]}}), to_string(all[3]));
  const Heads h = heads_of(all[0].shape, all[1].shape);
  return {.factors = h.factors,
          .operands = {h.q, h.k, h.k, {h.q[0]}},
          .results = {h.q},
          .flops_per_point = flops_of(query, all[1]),
          .scores = scores_of(h.factors)};
}

/// (dy, q, k, v, y, lse, maybe mask, maybe segments) -> (dq, dk, dv)
Rule attention_grad_rule(const OpQuery& query) {
  require_shapes(query, 1, 6);
  const std::span<const TensorType> all = query.operands;
  const TensorType rows{ops::statistics_type(all[1].dtype),
                        {all[1].shape[0], all[1].shape[2], all[1].shape[1]}};
  if (all[0] != all[1] || all[4] != all[1] || all[5] != rows)
    fail("attention_grad: dy and y must be {}, lse {} ({})", to_string(all[1]), to_string(rows),
         to_string(all));
  const Heads h = heads_of(all[1].shape, all[2].shape);
  Rule rule{.factors = h.factors,
            .operands = {h.q, h.q, h.k, h.k, h.q, h.rows},
            .results = {h.q, h.k, h.k},
            .reduced = {{}, h.in_keys, h.in_keys},
            .linear = query.op->linear,
            .flops_per_point = flops_of(query, all[2]),
            .scores = scores_of(h.factors)};
  add_masks(rule, h, all.size() - 6);
  return rule;
}

Values attention_vjp(Recorder& g, const Node& n, const Values& dys) {
  invariant(dys[0] && !dys[1], "the log-sum-exp of attention is for its gradient alone");
  Values operands = {dys[0],          g.operand(n, 0), g.operand(n, 1),
                     g.operand(n, 2), g.result(n, 0),  g.result(n, 1)};
  for (int i = 3; i < static_cast<int>(n.operands.size()); ++i) operands.push_back(g.operand(n, i));
  Values gradients = g.emit(ops::attention_grad, operands, n.attributes);
  gradients.resize(n.operands.size());
  return gradients;
}

}  // namespace

// The products q kᵀ and p v.
const OpDef ops::attention = {
    .name = "attention",
    .rule = attention_rule,
    .result_dtypes =
        [](const OpQuery& query) {
          const DType q = query.operands[0].dtype;
          return std::vector<DType>{q, ops::statistics_type(q)};
        },
    .flops_per_point = 4,
    .vjp = attention_vjp,
    .work = Work::heavy,
    .cpu = &cpu::attention,
};

// FLOPs count all keys: an upper bound, because keys after a row's position are not read.
const OpDef ops::cached_attention = {
    .name = "cached_attention",
    .rule = cached_attention_rule,
    .flops_per_point = 4,
    .work = Work::heavy,
    .cpu = &cpu::cached_attention,
};

// Five products: the probabilities are computed again.
const OpDef ops::attention_grad = {
    .name = "attention_grad",
    .rule = attention_grad_rule,
    .result_dtypes =
        [](const OpQuery& query) { return std::vector<DType>(3, query.operands[1].dtype); },
    .flops_per_point = 10,
    .linear = {0b1},
    .work = Work::heavy,
    .cpu = &cpu::attention_grad,
};

Value attention(Value q, Value k, Value v, AttentionOptions options) {
  require(q && k && v, "attention: an operand is an empty Value");
  require(options.dropout >= 0 && options.dropout < 1,
          "attention: dropout rate {} is not in [0, 1)", options.dropout);
  const double scale = options.scale.value_or(
      1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q.dim(-1)))));
  require(scale > 0 && std::isfinite(scale), "attention: scale must be above 0, not {}", scale);
  require(options.window >= 0 && options.soft_cap >= 0 && std::isfinite(options.soft_cap),
          "attention: window {} and soft cap {}; both must be at least 0", options.window,
          options.soft_cap);
  require(options.window == 0 || options.causal || options.positions,
          "attention: a window is of the keys up to a query's own; give causal or positions");
  Attributes attributes{{"scale", scale}};
  if (options.window > 0 && options.window < k.dim(1)) attributes.set("window", options.window);
  if (options.soft_cap > 0) attributes.set("soft_cap", options.soft_cap);
  if (options.positions) {
    require(!options.causal && options.dropout == 0 && !options.key_mask && !options.segments,
            "attention: positions say what is seen; leave out causal, dropout, key_mask and "
            "segments");
    return recorder(q).emit_one(ops::cached_attention, {q, k, v, options.positions}, attributes);
  }
  attributes.set("causal", std::int64_t{options.causal});
  attributes.set("dropout", options.dropout);
  if (options.dropout > 0) attributes.set(std::string(kStreamAttribute), recorder(q).next_stream());
  if (!options.repeats) attributes.set("varies", std::int64_t{1});
  Values operands = {q, k, v};
  if (options.key_mask) operands.push_back(options.key_mask);
  if (options.segments)
    operands.insert(operands.end(), {options.segments, options.segments});  // of queries, of keys
  return recorder(q).emit(ops::attention, operands, attributes)[0];
}

}  // namespace alpa
