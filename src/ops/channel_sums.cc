// src/ops/channel_sums.cc — what batch normalisation needs: Σ x and Σ x² of every channel of x
// [..., C] in one read, Σ x and Σ x·y for gradients, and x · y + z. Sums over split dimensions are
// partial results, a number per channel each.
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Element types of the two sums per channel. Throws Error unless all operands have one floating
/// type.
std::vector<DType> sums_dtypes(const OpQuery& query) {
  const DType x = query.operands[0].dtype;
  for (const TensorType& type : query.operands)
    if (!is_floating(x) || type.dtype != x)
      fail("{}: needs one floating type ({}); cast", query.op->name, to_string(query.operands));
  return std::vector<DType>(2, ops::statistics_type(x));
}

/// slope · x + shift of every channel in x's type, where either may be empty.
Value along_channels(Value x, Value slope, Value shift) {
  if (!slope) return cast(broadcast_to(shift, x.shape()), x.dtype());
  const Value wide = cast(x, slope.dtype()) * slope;
  return cast(shift ? wide + shift : wide, x.dtype());
}

Values channel_sums_vjp(Recorder& g, const Node& n, const Values& dys) {
  return {along_channels(g.operand(n, 0), dys[1] ? dys[1] * 2 : Value{}, dys[0])};
}

Values channel_products_vjp(Recorder& g, const Node& n, const Values& dys) {
  const Value x = g.operand(n, 0), y = g.operand(n, 1);
  return {along_channels(y, dys[1], dys[0]), dys[1] ? along_channels(x, dys[1], Value{}) : Value{}};
}

/// {Σ dy, Σ dy · x}, read in the type that both were stored in.
Values gradient_sums(Recorder& g, Value dy, Value x) {
  const Value narrow_dy = ops::before_widening(dy), narrow_x = ops::before_widening(x);
  return narrow_dy.dtype() == narrow_x.dtype()
             ? g.emit(ops::channel_products, {narrow_dy, narrow_x})
             : g.emit(ops::channel_products, {dy, x});
}

/// x's gradient, and the conversion of dy for it, come behind the sums. Before them both would run
/// with what computes dy, and be stored in f32 until x's other gradients are known.
Values multiply_add_vjp(Recorder& g, const Node& n, const Values& dys) {
  const Value dy = dys[0], x = g.operand(n, 0), y = g.operand(n, 1), z = g.operand(n, 2);
  const Shape& shape = dy.shape();
  const bool of_channels = shape.size() >= 2 && x.shape() == shape &&
                           y.shape() == Shape{shape.back()} && z.shape() == y.shape();
  if (!of_channels)
    return {ops::sum_to(dy * y, x.shape()), ops::sum_to(dy * x, y.shape()),
            ops::sum_to(dy, z.shape())};
  const Values sums = gradient_sums(g, dy, x);
  const Value wide_dy = cast(ops::before_widening(dy), dy.dtype());
  return {wide_dy * y, cast(sums[1], y.dtype()), cast(sums[0], z.dtype())};
}

}  // namespace

const OpDef ops::channel_sums = {
    .name = "channel_sums",
    .dims = "...c -> c, c",
    .result_dtypes = sums_dtypes,
    .flops_per_point = 3,
    .vjp = channel_sums_vjp,
    .chunked = ChunkedSum::rows,
    .cpu = &cpu::channel_sums,
};

const OpDef ops::channel_products = {
    .name = "channel_products",
    .dims = "...c, ...c -> c, c",
    .result_dtypes = sums_dtypes,
    .flops_per_point = 3,
    .linear = {0b01},
    .vjp = channel_products_vjp,
    .chunked = ChunkedSum::rows,
    .cpu = &cpu::channel_products,
};

const OpDef ops::multiply_add = elementwise<ElementwiseOp::multiply_add>({
    .name = "multiply_add",
    .rule = floating_rule,
    .linear = {0b101, 0b110},
    .vjp = multiply_add_vjp,
});

namespace {

void require_channels(const char* function, Value x) {
  require(static_cast<bool>(x), "{}: the operand is an empty Value", function);
  require(is_floating(x.dtype()), "{}: {} is not a floating type; cast it", function,
          to_string(x.type()));
  require(x.rank() >= 1, "{}: {} has no channels", function, to_string(x.type()));
}

}  // namespace

Values channel_sums(Value x) {
  require_channels("channel_sums", x);
  return recorder(x).emit(ops::channel_sums, {x});
}

Value scale_shift(Value x, Value scale, Value shift) {
  require_channels("scale_shift", x);
  require(scale && shift, "scale_shift: an operand is an empty Value");
  const TensorType channels{ops::statistics_type(x.dtype()), {x.dim(-1)}};
  require(scale.type() == channels && shift.type() == channels,
          "scale_shift: x {} needs scale and shift {}, not {} and {}", to_string(x.type()),
          to_string(channels), to_string(scale.type()), to_string(shift.type()));
  const Value wide = cast(x, channels.dtype);
  return cast(recorder(x).emit_one(ops::multiply_add, {wide, scale, shift}), x.dtype());
}

}  // namespace alpa
