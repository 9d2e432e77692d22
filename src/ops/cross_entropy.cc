// src/ops/cross_entropy.cc — what the cross entropy of a row needs of its logits x, in one pass:
// log Σ_v exp(x_v) and Σ_v target_v x_v, target = (1 - smoothing) onehot(label) + smoothing / V;
// and the gradient of both. A device with some of the vocabulary has partial results, a number per
// row each.
#include "along_axis.h"
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Operands 0 and 1 of both records.
void require_logits(const OpQuery& query, std::size_t operands) {
  ops::require_operands(query, operands);
  const TensorType &x = query.operands[0], &labels = query.operands[1];
  if (!is_floating(x.dtype) || x.rank() < 1 || labels.dtype != i32 ||
      labels.shape != Shape(x.shape.begin(), x.shape.end() - 1))
    fail("{}: needs floating logits [..., V] and labels i32 [...] ({})", query.op->name,
         to_string(query.operands));
  query.attributes.real("smoothing");
}

/// (x, labels) -> (log Σ exp, Σ target x)
Rule cross_entropy_rule(const OpQuery& query) {
  require_logits(query, 2);
  const Shape& shape = query.operands[0].shape;
  const int vocabulary = static_cast<int>(shape.size()) - 1;
  Rule rule = ops::dims_rule(shape, vocabulary, false);
  const DimFactors x = ops::dims_with(shape.size(), vocabulary, vocabulary),
                   rows(x.begin(), x.end() - 1);
  rule.operands = {x, rows};
  rule.results = {rows, rows};
  rule.reduced = {{{vocabulary, Combiner::log_sum_exp}}, {{vocabulary, Combiner::sum}}};
  rule.flops_per_point = query.op->flops_per_point;
  return rule;
}

std::vector<DType> gradient_dtypes(const OpQuery& query) {
  require_logits(query, 5);
  const TensorType rows{ops::statistics_type(query.operands[0].dtype), query.operands[1].shape};
  for (const TensorType& type : query.operands.subspan(2))
    if (type != rows)
      fail("cross_entropy_grad: a row's numbers must be {} ({})", to_string(rows),
           to_string(query.operands));
  return {query.operands[0].dtype};
}

Values cross_entropy_vjp(Recorder& g, const Node& n, const Values& dys) {
  const Value lse = g.result(n, 0);
  Values operands = {g.operand(n, 0), g.operand(n, 1), lse};
  for (const Value& dy : dys)
    operands.push_back(dy ? dy : constant(g, 0, lse.dtype(), lse.shape()));
  return {g.emit_one(ops::cross_entropy_grad, operands, n.attributes), Value{}};
}

/// Gradients of dx = p dlse + target dtarget, where p = exp(x - lse).
Values cross_entropy_grad_vjp(Recorder& g, const Node& n, const Values& dys) {
  const Value x = g.operand(n, 0), lse = g.operand(n, 2), dlse = g.operand(n, 3);
  const auto column = [](Value row) {
    Shape shape = row.shape();
    shape.push_back(1);
    return reshape(row, shape);
  };
  const Value through_p = cast(dys[0], lse.dtype()) * exp(cast(x, lse.dtype()) - column(lse));
  const Value slope = sum(through_p, {-1});
  const Values through_target = g.emit(ops::cross_entropy, {dys[0], g.operand(n, 1)}, n.attributes);
  return {cast(through_p * column(dlse), x.dtype()), Value{}, -(slope * dlse), slope,
          through_target[1]};
}

}  // namespace

const OpDef ops::cross_entropy = {
    .name = "cross_entropy",
    .rule = cross_entropy_rule,
    .result_dtypes =
        [](const OpQuery& query) {
          return std::vector<DType>(2, ops::statistics_type(query.operands[0].dtype));
        },
    .flops_per_point = 11,
    .vjp = cross_entropy_vjp,
    .cpu = &cpu::cross_entropy,
};

// x, labels, log Σ exp and the gradients of both results -> dx
const OpDef ops::cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .dims = "...v, ..., ..., ..., ... -> ...v",
    .result_dtypes = gradient_dtypes,
    .flops_per_point = 11,
    .linear = {0b11000},
    .vjp = cross_entropy_grad_vjp,
    .in_place = InPlace::paired,
    .cpu = &cpu::cross_entropy_grad,
};

Value softmax_cross_entropy(Value logits, Value labels, CrossEntropyOptions options) {
  require(logits && labels && logits.rank() >= 1,
          "softmax_cross_entropy: needs logits [..., V] and labels [...]");
  require(is_floating(logits.dtype()), "softmax_cross_entropy: {} is not a floating type; cast it",
          to_string(logits.type()));
  const Shape rows(logits.shape().begin(), logits.shape().end() - 1);
  require(
      labels.dtype() == i32 && labels.shape() == rows,
      "softmax_cross_entropy: logits {} need labels {}, not {}; pass class indices, one per row",
      to_string(logits.type()), to_string(TensorType{i32, rows}), to_string(labels.type()));
  const double smoothing = options.label_smoothing;
  require(smoothing >= 0 && smoothing < 1,
          "softmax_cross_entropy: label smoothing {} is not in [0, 1)", smoothing);
  const Values sums =
      recorder(logits).emit(ops::cross_entropy, {logits, labels}, {{"smoothing", smoothing}});
  const Value loss = sums[0] - sums[1];
  if (!options.ignored_label) return loss;
  return where(eq(labels, static_cast<double>(*options.ignored_label)), 0.0, loss);
}

}  // namespace alpa
