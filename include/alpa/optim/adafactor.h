#pragma once
/// Adafactor, whose state is far smaller than the parameters (Shazeer and Stern 2018, algorithms 4
/// and 5; in Optax's order).
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "alpa/optim/rule.h"
#pragma GCC visibility push(default)

namespace alpa::optim {

/// min(0.01, 1 / √step): the learning rate that Adafactor's paper calls relative.
double relative_step(std::int64_t step);

/// Adafactor (Shazeer and Stern 2018): second moments of a matrix are kept as means of its rows
/// ("<p>.adafactor_rows") and columns ("<p>.adafactor_columns").
struct Adafactor {
  LearningRate learning_rate = relative_step;  ///< of a step
  double decay = 0.8;                          ///< beta2 of step t is 1 - t^-decay
  double epsilon = 1e-30;                      ///< added to squared gradients
  double clip_rms = 1;      ///< largest root mean square of a parameter's direction; 0: any
  double momentum = 0;      ///< of the update; 0 keeps none
  double weight_decay = 0;  ///< decoupled; not multiplied by the learning rate
  /// The step is multiplied by the parameter's root mean square, at least 1e-3.
  bool relative_to_parameter = true;
  /// Parameters with two extents of at least this are factored, along their two largest.
  std::int64_t min_factored_extent = 128;

  /// Adds the update of w by its gradient; state as above, "<w>.adafactor_v" where nothing is
  /// factored, and "<w>.adafactor_m" if there is momentum.
  void update(Builder& builder, Value w, Value gradient, Value rate, Value step) const {
    const DType dtype = update_dtype(w);
    const Value old = cast(w, dtype), g = cast(gradient, dtype);
    const Value rest = pow(cast(step, dtype), -decay);
    Value direction = normalised(w, g, rest);
    Value size = cast(rate, dtype);
    if (clip_rms > 0) size = size / maximum(root_mean_square(direction) * (1 / clip_rms), 1);
    if (relative_to_parameter) size = size * maximum(root_mean_square(old), 1e-3);
    Value change = direction * size;
    if (momentum > 0) {
      const Value average = builder.optimizer_state(w, "adafactor_m", change.type());
      change = average * momentum + change * (1 - momentum);
      builder.update(average, change);
    }
    builder.update(w, cast(old * (1 - weight_decay) - change, w.dtype()));
  }

  operator Optimizer() const {
    require(decay > 0, "optim::Adafactor: decay is {}; it must be above 0", decay);
    require_fraction("Adafactor", "momentum", momentum);
    return from_rule(*this);
  }

 private:
  /// The second largest extent's dimension and the largest's, if w is factored.
  std::optional<std::array<std::int64_t, 2>> factored_axes(const Shape& shape) const;
  static Shape with_one(Shape shape, std::int64_t axis) {
    shape[axis] = 1;
    return shape;
  }
  /// A moving average in state "<w>.<what>".
  static Value moving_average(Value w, const std::string& what, Value x, Value rest) {
    const Value average = w.builder->optimizer_state(w, what, x.type());
    const Value next = average + rest * (x - average);
    w.builder->update(average, next);
    return next;
  }
  /// The gradient over the root of its second moments; `rest` is 1 - beta2.
  Value normalised(Value w, Value g, Value rest) const {
    const Value squares = square(g) + epsilon;
    const auto axes = factored_axes(w.shape());
    if (!axes) return g * rsqrt(moving_average(w, "adafactor_v", squares, rest));
    const auto [second, largest] = *axes;
    const Value rows = moving_average(w, "adafactor_rows", mean(squares, {largest}), rest);
    const Value columns = moving_average(w, "adafactor_columns", mean(squares, {second}), rest);
    const std::int64_t row_axis = second > largest ? second - 1 : second;
    const Value by_row = rsqrt(rows / mean(rows, {row_axis}, true));
    return g * reshape(by_row, with_one(w.shape(), largest)) *
           reshape(rsqrt(columns), with_one(w.shape(), second));
  }
  static Value root_mean_square(Value x) {
    return sqrt(squared_norm(x) * (1.0 / static_cast<double>(x.type().elements())));
  }
};

}  // namespace alpa::optim
#pragma GCC visibility pop
