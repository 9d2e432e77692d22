// src/ops/softmax.cc — softmax, log_softmax and one_hot, composed so that every reduction is
// visible to the planner
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "simplify.h"

namespace alpa {
namespace {

/// x minus its maximum along `axis`: exponentials of it do not overflow, and
/// softmax does not see the shift.
Value shifted(std::string_view op, Value x, std::int64_t axis) {
  require(static_cast<bool>(x), "{}: the operand is an empty Value", op);
  require(is_floating(x.dtype()), "{}: {} is not a floating type; cast it", op,
          to_string(x.type()));
  return x - stop_gradient(max(x, {ops::checked_axis(op, axis, x.type())}, true));
}

}  // namespace

Value softmax(Value x, std::int64_t axis) {
  const Value e = exp(shifted("softmax", x, axis));
  return e / sum(e, {axis}, true);
}

Value log_softmax(Value x, std::int64_t axis) {
  const Value z = shifted("log_softmax", x, axis);
  return z - log(sum(exp(z), {axis}, true));
}

Value one_hot(Value labels, std::int64_t classes, DType dtype) {
  require(labels && labels.dtype() == i32, "one_hot: labels must be i32");
  require(classes >= 1, "one_hot: the number of classes must be at least 1, not {}", classes);
  Shape column = labels.shape();
  column.push_back(1);
  return cast(eq(iota(*labels.builder, {i32, {classes}}), reshape(labels, column)), dtype);
}

}  // namespace alpa
