// src/ops/softmax.cc — softmax and what is made of it, composed so that every reduction
// is visible to the planner
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

/// u8: where the index along a new last dimension of extent `classes` equals the label.
Value label_mask(Value labels, std::int64_t classes) {
  Shape column = labels.shape();
  column.push_back(1);
  return eq(iota(*labels.builder, {labels.dtype(), {classes}}), reshape(labels, column));
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
  return cast(label_mask(labels, classes), dtype);
}

Value softmax_cross_entropy(Value logits, Value labels, CrossEntropyOptions options) {
  require(logits && labels && logits.rank() >= 1,
          "softmax_cross_entropy: needs logits [..., V] and labels [...]");
  const Shape rows(logits.shape().begin(), logits.shape().end() - 1);
  require(
      labels.dtype() == i32 && labels.shape() == rows,
      "softmax_cross_entropy: logits {} need labels {}, not {}; pass class indices, one per row",
      to_string(logits.type()), to_string(TensorType{i32, rows}), to_string(labels.type()));
  const double smoothing = options.label_smoothing;
  require(smoothing >= 0 && smoothing < 1,
          "softmax_cross_entropy: label smoothing {} is not in [0, 1)", smoothing);
  const Value z = shifted("softmax_cross_entropy", logits, -1);
  Value expected = sum(where(label_mask(labels, logits.shape().back()), z, 0), {-1});
  if (smoothing > 0) expected = expected * (1 - smoothing) + mean(z, {-1}) * smoothing;
  const Value loss = log(sum(exp(z), {-1})) - expected;
  if (!options.ignored_label) return loss;
  return where(eq(labels, static_cast<double>(*options.ignored_label)), 0.0, loss);
}

}  // namespace alpa
