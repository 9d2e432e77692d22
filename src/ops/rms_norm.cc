// src/ops/rms_norm.cc — y = x · rstd · scale with rstd = 1 / sqrt(mean(x²) + epsilon) over the last
// dimension, and its gradient
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

DType statistics_type(DType x) { return x == f64 ? f64 : f32; }

std::vector<DType> norm_dtypes(const OpQuery& query) {
  const DType x = query.operands[0].dtype;
  if (!is_floating(x) || query.operands[1].dtype != x)
    fail("rms_norm: x and scale must have one floating type ({}); cast them",
         to_string(query.operands));
  query.attributes.real("epsilon");
  return {x, statistics_type(x)};
}

std::vector<DType> grad_dtypes(const OpQuery& query) {
  return {query.operands[1].dtype, query.operands[2].dtype};
}

/// The share of rstd's gradient in that of x: d rstd / dx = -rstd³ x / C.
Value through_rstd(Recorder& g, const Node& n, Value drstd) {
  const Value x = g.operand(n, 0), rstd = g.result(n, 1);
  Shape column = rstd.shape();
  column.push_back(1);
  const double share = -1.0 / static_cast<double>(x.shape().back());
  const Value slope = alpa::reshape(drstd * rstd * alpa::square(rstd) * share, column);
  return alpa::cast(alpa::cast(x, rstd.dtype()) * slope, x.dtype());
}

Values rms_norm_vjp(Recorder& g, const Node& n, const Values& dys) {
  Values gradients(2);
  if (dys[0])
    gradients =
        g.emit(ops::rms_norm_grad, {dys[0], g.operand(n, 0), g.operand(n, 1), g.result(n, 1)});
  if (!dys[1]) return gradients;
  const Value more = through_rstd(g, n, dys[1]);
  gradients[0] = gradients[0] ? gradients[0] + more : more;
  return gradients;
}

}  // namespace

const OpDef ops::rms_norm = {
    .name = "rms_norm",
    .dims = "...c!, c! -> ...c!, ...",
    .result_dtypes = norm_dtypes,
    .flops_per_point = 5,
    .vjp = rms_norm_vjp,
    .cpu = &cpu::rms_norm,
};

// dy, x, scale, rstd -> dx, dscale
const OpDef ops::rms_norm_grad = {
    .name = "rms_norm_grad",
    .dims = "...c!, ...c!, c!, ... -> ...c!, c!",
    .result_dtypes = grad_dtypes,
    .flops_per_point = 9,
    .linear = {0b0001},
    .cpu = &cpu::rms_norm_grad,
};

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
