// src/ops/layer_norm.cc — y = (x - mean) · rstd · scale + bias over the last
// dimension, and its gradient
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

DType statistics_type(DType x) { return x == f64 ? f64 : f32; }

std::vector<DType> norm_dtypes(const OpQuery& query) {
  const DType x = query.operands[0].dtype;
  for (const TensorType& type : query.operands)
    if (!is_floating(x) || type.dtype != x)
      fail("layer_norm: x, scale and bias must have one floating type ({}); cast them",
           to_string(query.operands));
  query.attributes.real("epsilon");
  return {x, statistics_type(x), statistics_type(x)};
}

std::vector<DType> grad_dtypes(const OpQuery& query) {
  return {query.operands[1].dtype, query.operands[2].dtype, query.operands[2].dtype};
}

/// One number a row, as a column that broadcasts along the rows.
Value column(Value x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return alpa::reshape(x, shape);
}

/// The share of mean's and rstd's gradients in that of x: d mean / dx = 1 / C, d rstd /
/// dx = -rstd³ (x - mean) / C.
Value through_statistics(Recorder& g, const Node& n, Value dmean, Value drstd) {
  const Value x = g.operand(n, 0), mean = g.result(n, 1), rstd = g.result(n, 2);
  const double share = 1.0 / static_cast<double>(x.shape().back());
  Value dx;
  if (dmean) dx = alpa::broadcast_to(column(dmean * share), x.shape());
  if (drstd) {
    const Value slope = column(drstd * rstd * alpa::square(rstd) * -share);
    const Value part = (alpa::cast(x, mean.dtype()) - column(mean)) * slope;
    dx = dx ? dx + part : part;
  }
  return alpa::cast(dx, x.dtype());
}

Values layer_norm_vjp(Recorder& g, const Node& n, const Values& dys) {
  Values gradients(3);
  if (dys[0])
    gradients = g.emit(ops::layer_norm_grad,
                       {dys[0], g.operand(n, 0), g.operand(n, 1), g.result(n, 1), g.result(n, 2)});
  if (!dys[1] && !dys[2]) return gradients;
  const Value more = through_statistics(g, n, dys[1], dys[2]);
  gradients[0] = gradients[0] ? gradients[0] + more : more;
  return gradients;
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

// dy, x, scale, mean, rstd -> dx, dscale, dbias
const OpDef ops::layer_norm_grad = {
    .name = "layer_norm_grad",
    .dims = "...c!, ...c!, c!, ..., ... -> ...c!, c!, c!",
    .result_dtypes = grad_dtypes,
    .flops_per_point = 13,
    .linear = {0b00001},
    .cpu = &cpu::layer_norm_grad,
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

}  // namespace alpa
