// src/ops/top_k.cc — the first elements of dimensions in order: argmax, top_k, sort
#include "along_axis.h"
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

void require_order(const OpQuery& query) {
  ops::require_operands(query, 1);
  if (query.operands[0].dtype == u8)
    fail("{}: x is u8, the type of conditions ({}); cast it", query.op->name,
         to_string(query.operands));
}

Rule argmax_rule(const OpQuery& query) {
  require_order(query);
  const TensorType& x = query.operands[0];
  const std::int64_t axis = ops::axis_of(query, x);
  Rule rule = ops::dims_rule(x.shape, axis, true);
  rule.operands = {ops::dims_with(x.shape.size(), axis, static_cast<int>(axis))};
  rule.results = rule.operands;
  rule.results[0].erase(rule.results[0].begin() + axis);
  rule.flops_per_point = query.op->flops_per_point;
  return rule;
}

/// x -> values and indices of the first "k" elements of the last dimension in order.
Rule top_k_rule(const OpQuery& query) {
  require_order(query);
  const TensorType& x = query.operands[0];
  const std::int64_t k = query.attributes.integer("k"), axis = x.rank() - 1;
  query.attributes.integer("descending");
  if (axis < 0 || k < 1 || k > x.shape.back())
    fail("top_k: {} has no {} elements in its last dimension", to_string(x), k);
  Rule rule = ops::dims_rule(x.shape, axis, true);
  const int kept = ops::add_factor(rule, k, true);
  rule.operands = {ops::dims_with(x.shape.size(), axis, static_cast<int>(axis))};
  rule.results = {2, ops::dims_with(x.shape.size(), axis, kept)};
  rule.work = {ops::factors_of(rule.operands[0])};
  rule.flops_per_point = query.op->flops_per_point;
  return rule;
}

TopK emit_top_k(Value x, std::int64_t k, bool descending) {
  const Values results =
      recorder(x).emit(ops::top_k, {x}, {{"k", k}, {"descending", std::int64_t{descending}}});
  return {results[0], results[1]};
}

/// x with dimensions `axis` and the last one exchanged.
Value with_axis_last(Value x, std::int64_t axis) {
  Axes axes = ops::first_dims(x.rank());
  std::swap(axes[axis], axes.back());
  return transpose(x, axes);
}

}  // namespace

const OpDef ops::argmax = {
    .name = "argmax",
    .rule = argmax_rule,
    .result_dtypes = [](const OpQuery&) { return std::vector<DType>{i32}; },
    .flops_per_point = 1,
    .cpu = &cpu::argmax,
};

const OpDef ops::top_k = {
    .name = "top_k",
    .rule = top_k_rule,
    .result_dtypes =
        [](const OpQuery& query) {
          return std::vector<DType>{query.operands[0].dtype, i32};
        },
    .flops_per_point = 1,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Shape& x = g.operand(n, 0).shape();
      return {
          g.emit_one(take_along_axis_grad, {dys[0], g.result(n, 1)},
                     {{"axis", static_cast<std::int64_t>(x.size()) - 1}, {"extent", x.back()}})};
    },
    .cpu = &cpu::top_k,
};

Value argmax(Value x, std::int64_t axis) {
  require(static_cast<bool>(x), "argmax: the operand is an empty Value");
  return recorder(x).emit_one(ops::argmax, {x},
                              {{"axis", ops::checked_axis("argmax", axis, x.type())}});
}

TopK top_k(Value x, std::int64_t k) {
  require(static_cast<bool>(x), "top_k: the operand is an empty Value");
  require(x.rank() >= 1 && k >= 1 && k <= x.dim(-1),
          "top_k: {} has no {} elements in its last dimension", to_string(x.type()), k);
  return emit_top_k(x, k, true);
}

TopK sort(Value x, std::int64_t axis, bool descending) {
  require(static_cast<bool>(x), "sort: the operand is an empty Value");
  const std::int64_t d = ops::checked_axis("sort", axis, x.type());
  const TopK sorted = emit_top_k(with_axis_last(x, d), x.shape()[d], descending);
  return {with_axis_last(sorted.values, d), with_axis_last(sorted.indices, d)};
}

}  // namespace alpa
