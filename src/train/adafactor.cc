// src/train/adafactor.cc — Adafactor (Shazeer and Stern 2018, algorithms 4 and 5; Optax's order)
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "alpa/train/optimizer.h"
#include "composed_update.h"
#include "src/ir/recorder.h"

namespace alpa {
namespace {

/// Least root mean square of a parameter by which its step is multiplied.
constexpr double kLeastParameterRms = 1e-3;

/// The second largest extent's dimension and the largest's, if a tensor of this shape is factored.
std::optional<std::array<std::int64_t, 2>> factored_axes(const Shape& shape, std::int64_t least) {
  if (shape.size() < 2) return {};
  std::vector<std::int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(), [&](auto a, auto b) { return shape[a] < shape[b]; });
  const std::int64_t second = axes[axes.size() - 2], largest = axes.back();
  if (shape[second] < least) return {};
  return std::array{second, largest};
}

Shape with_one(Shape shape, std::int64_t axis) {
  shape[axis] = 1;
  return shape;
}

/// A moving average in state "<parameter>.<what>".
Value moving_average(Value w, const std::string& what, Value x, Value rest) {
  const Value average = recorder(w).optimizer_state(w, what, x.type());
  const Value next = average + rest * (x - average);
  recorder(w).update(average, next);
  return next;
}

/// The gradient over the root of its second moments; `rest` is 1 - beta2.
Value normalised(const optim::Adafactor& adafactor, Value w, Value g, Value rest) {
  const Value squares = square(g) + adafactor.epsilon;
  const auto axes = factored_axes(w.shape(), adafactor.min_factored_extent);
  if (!axes) return g * rsqrt(moving_average(w, "adafactor_v", squares, rest));
  const auto [second, largest] = *axes;
  const Value rows = moving_average(w, "adafactor_rows", mean(squares, {largest}), rest);
  const Value columns = moving_average(w, "adafactor_columns", mean(squares, {second}), rest);
  const std::int64_t row_axis = second > largest ? second - 1 : second;
  const Value by_row = rsqrt(rows / mean(rows, {row_axis}, true));
  return g * reshape(by_row, with_one(w.shape(), largest)) *
         reshape(rsqrt(columns), with_one(w.shape(), second));
}

Value root_mean_square(Value x) {
  return sqrt(squared_norm(x) * (1.0 / static_cast<double>(x.type().elements())));
}

void adafactor_update(const optim::Adafactor& adafactor, Builder& builder, Value w, Value gradient,
                      Value learning_rate, Value step) {
  const DType dtype = update_dtype(w.dtype());
  const Value old = cast(w, dtype), g = cast(gradient, dtype);
  const Value rest = pow(cast(step, dtype), -adafactor.decay);
  Value direction = normalised(adafactor, w, g, rest);
  Value size = cast(learning_rate, dtype);
  if (adafactor.clip_rms > 0)
    size = size / maximum(root_mean_square(direction) * (1 / adafactor.clip_rms), 1);
  if (adafactor.relative_to_parameter)
    size = size * maximum(root_mean_square(old), kLeastParameterRms);
  Value change = direction * size;
  if (adafactor.momentum > 0) {
    const Value average = builder.optimizer_state(w, "adafactor_m", change.type());
    change = average * adafactor.momentum + change * (1 - adafactor.momentum);
    builder.update(average, change);
  }
  builder.update(w, cast(old * (1 - adafactor.weight_decay) - change, w.dtype()));
}

}  // namespace

optim::Adafactor::operator Optimizer() const {
  require(decay > 0, "optim::Adafactor: decay is {}; it must be above 0", decay);
  require_fraction("optim::Adafactor: momentum", momentum);
  auto update = [adafactor = *this](Builder& builder, Value w, Value gradient, Value learning_rate,
                                    Value step) {
    adafactor_update(adafactor, builder, w, gradient, learning_rate, step);
  };
  return {update, learning_rate};
}

}  // namespace alpa
