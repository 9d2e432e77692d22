// src/ops/norms.cc — layer norm, (x - mean) · rstd · scale + bias, and RMS norm, x · rstd · scale
// with rstd = 1 / sqrt(mean(x²) + epsilon), over the last dimension, and their gradients
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// `plain`, or with another operand, a gradient of x from elsewhere that is added, `onto`.
Rule grad_rule(const OpDef& plain, const OpDef& onto, std::size_t operands, const OpQuery& query) {
  return rule_of(query.operands.size() > operands ? onto : plain, query);
}

Rule layer_norm_grad_rule(const OpQuery& query) {
  static const OpDef plain{.name = "layer_norm_grad",
                           .dims = "...c!, ...c!, c!, ..., ... -> ...c!, c!, c!",
                           .flops_per_point = 13,
                           .linear = {0b00001}},
      onto{.name = "layer_norm_grad",
           .dims = "...c!, ...c!, c!, ..., ..., ...c! -> ...c!, c!, c!",
           .flops_per_point = 14,
           .linear = {0b100001}};
  return grad_rule(plain, onto, 5, query);
}

Rule rms_norm_grad_rule(const OpQuery& query) {
  static const OpDef plain{.name = "rms_norm_grad",
                           .dims = "...c!, ...c!, c!, ... -> ...c!, c!",
                           .flops_per_point = 9,
                           .linear = {0b0001}},
      onto{.name = "rms_norm_grad",
           .dims = "...c!, ...c!, c!, ..., ...c! -> ...c!, c!",
           .flops_per_point = 10,
           .linear = {0b10001}};
  return grad_rule(plain, onto, 4, query);
}

/// Types of the result and of the row statistics: mean and rstd of x, scale and bias, or rstd alone
/// of x and scale.
std::vector<DType> norm_dtypes(const OpQuery& query) {
  const DType x = query.operands[0].dtype;
  for (const TensorType& type : query.operands)
    if (!is_floating(x) || type.dtype != x)
      fail("{}: {} must have one floating type ({}); cast them", query.op->name,
           query.operands.size() == 3 ? "x, scale and bias" : "x and scale",
           to_string(query.operands));
  query.attributes.real("epsilon");
  std::vector<DType> types(query.operands.size(), ops::statistics_type(x));
  types[0] = x;
  return types;
}

std::vector<DType> layer_norm_grad_dtypes(const OpQuery& query) {
  return {query.operands[1].dtype, query.operands[2].dtype, query.operands[2].dtype};
}

std::vector<DType> rms_norm_grad_dtypes(const OpQuery& query) {
  return {query.operands[1].dtype, query.operands[2].dtype};
}

/// One number a row, as a column that broadcasts along the rows.
Value column(Value x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return alpa::reshape(x, shape);
}

/// The share of the statistics' gradients in that of x: d mean / dx = 1 / C, d rstd / dx =
/// -rstd³ (x - mean) / C. `mean` is empty for RMS norm.
Value through_statistics(Value x, Value mean, Value rstd, Value dmean, Value drstd) {
  const double share = 1.0 / static_cast<double>(x.shape().back());
  Value dx;
  if (dmean) dx = alpa::broadcast_to(column(dmean * share), x.shape());
  if (drstd) {
    const Value slope = column(drstd * rstd * alpa::square(rstd) * -share);
    Value centred = alpa::cast(x, rstd.dtype());
    if (mean) centred = centred - column(mean);
    dx = dx ? dx + centred * slope : centred * slope;
  }
  return alpa::cast(dx, x.dtype());
}

/// `gradients` of x, scale and bias through y, with what comes through the statistics.
Values with_statistics(Values gradients, Value x, Value mean, Value rstd, Value dmean,
                       Value drstd) {
  if (!dmean && !drstd) return gradients;
  const Value more = through_statistics(x, mean, rstd, dmean, drstd);
  gradients[0] = gradients[0] ? gradients[0] + more : more;
  return gradients;
}

Values layer_norm_vjp(Recorder& g, const Node& n, const Values& dys) {
  const Value x = g.operand(n, 0), scale = g.operand(n, 1), mean = g.result(n, 1),
              rstd = g.result(n, 2);
  Values gradients(3);
  if (dys[0]) gradients = g.emit(ops::layer_norm_grad, {dys[0], x, scale, mean, rstd});
  return with_statistics(gradients, x, mean, rstd, dys[1], dys[2]);
}

Values rms_norm_vjp(Recorder& g, const Node& n, const Values& dys) {
  const Value x = g.operand(n, 0), scale = g.operand(n, 1), rstd = g.result(n, 1);
  Values gradients(2);
  if (dys[0]) gradients = g.emit(ops::rms_norm_grad, {dys[0], x, scale, rstd});
  return with_statistics(gradients, x, {}, rstd, {}, dys[1]);
}

}  // namespace

const OpDef ops::layer_norm = {
    .name = "layer_norm",
    .dims = "...c!, c!, c! -> ...c!, ..., ...",
    .result_dtypes = norm_dtypes,
    .flops_per_point = 8,
    .vjp = layer_norm_vjp,
    .cpu = &cpu::layer_norm,
};

// dy, x, scale, mean, rstd[, addend] -> dx (+ addend), dscale, dbias
const OpDef ops::layer_norm_grad = {
    .name = "layer_norm_grad",
    .rule = layer_norm_grad_rule,
    .result_dtypes = layer_norm_grad_dtypes,
    .chunked = ChunkedSum::rows,
    .cpu = &cpu::layer_norm_grad,
};

const OpDef ops::rms_norm = {
    .name = "rms_norm",
    .dims = "...c!, c! -> ...c!, ...",
    .result_dtypes = norm_dtypes,
    .flops_per_point = 5,
    .vjp = rms_norm_vjp,
    .cpu = &cpu::rms_norm,
};

// dy, x, scale, rstd[, addend] -> dx (+ addend), dscale
const OpDef ops::rms_norm_grad = {
    .name = "rms_norm_grad",
    .rule = rms_norm_grad_rule,
    .result_dtypes = rms_norm_grad_dtypes,
    .chunked = ChunkedSum::rows,
    .cpu = &cpu::rms_norm_grad,
};

Value layer_norm(Value x, Value scale, Value bias, double epsilon) {
  require(x && scale && bias, "layer_norm: an operand is an empty Value");
  require(x.rank() >= 1, "layer_norm: x is {}; it needs a last dimension to normalise",
          to_string(x.type()));
  const Shape features{x.shape().back()};
  require(scale.shape() == features && bias.shape() == features,
          "layer_norm: x {} needs scale and bias of shape {}, not scale {} and bias {}",
          to_string(x.type()), to_string(features), to_string(scale.type()),
          to_string(bias.type()));
  require(epsilon > 0, "layer_norm: epsilon must be above 0, not {}", epsilon);
  return recorder(x).emit(ops::layer_norm, {x, scale, bias}, {{"epsilon", epsilon}})[0];
}

Value rms_norm(Value x, Value scale, double epsilon) {
  require(x && scale, "rms_norm: an operand is an empty Value");
  require(x.rank() >= 1, "rms_norm: x is {}; it needs a last dimension to normalise",
          to_string(x.type()));
  require(scale.shape() == Shape{x.shape().back()},
          "rms_norm: x {} needs a scale of shape {}, not {}", to_string(x.type()),
          to_string(Shape{x.shape().back()}), to_string(scale.type()));
  require(epsilon > 0, "rms_norm: epsilon must be above 0, not {}", epsilon);
  return recorder(x).emit(ops::rms_norm, {x, scale}, {{"epsilon", epsilon}})[0];
}

}  // namespace alpa
