// src/train/composed_optimizers.cc — LAMB and Lion, of elementwise operators and norms
#include <cmath>

#include "alpa/ops/ops.h"
#include "alpa/train/optimizer.h"
#include "composed_update.h"
#include "src/ir/recorder.h"

namespace alpa {
namespace {

/// beta·average + (1 - beta)·x
Value averaged(Value average, Value x, double beta) { return average * beta + x * (1 - beta); }

/// State of a parameter in the element type of its updates.
Value moment(Value w, const std::string& what) {
  return recorder(w).optimizer_state(w, what, TensorType{update_dtype(w.dtype()), w.shape()});
}

/// ‖w‖ / ‖direction‖, or 1 where one of them is 0.
Value trust_ratio(Value w, Value direction) {
  const Value of_w = sqrt(squared_norm(w)), of_direction = sqrt(squared_norm(direction));
  return where(gt(minimum(of_w, of_direction), 0), of_w / of_direction, 1);
}

void lamb_update(const optim::Lamb& lamb, Builder& builder, Value w, Value gradient,
                 Value learning_rate, Value step) {
  const DType dtype = update_dtype(w.dtype());
  const Value old = cast(w, dtype), g = cast(gradient, dtype), t = cast(step, dtype);
  const Value m = moment(w, "lamb_m"), v = moment(w, "lamb_v");
  const Value new_m = averaged(m, g, lamb.beta1), new_v = averaged(v, square(g), lamb.beta2);
  const Value corrected = new_m / one_minus_power(lamb.beta1, t);
  const Value deviation = sqrt(new_v / one_minus_power(lamb.beta2, t)) + lamb.epsilon;
  const Value direction = corrected / deviation + old * lamb.weight_decay;
  const Value size = cast(learning_rate, dtype) * trust_ratio(old, direction);
  builder.update(w, cast(old - direction * size, w.dtype()));
  builder.update(m, new_m);
  builder.update(v, new_v);
}

void lion_update(const optim::Lion& lion, Builder& builder, Value w, Value gradient,
                 Value learning_rate) {
  const DType dtype = update_dtype(w.dtype());
  const Value old = cast(w, dtype), g = cast(gradient, dtype), m = moment(w, "lion_m");
  const Value direction = sign(averaged(m, g, lion.beta1)) + old * lion.weight_decay;
  builder.update(w, cast(old - direction * cast(learning_rate, dtype), w.dtype()));
  builder.update(m, averaged(m, g, lion.beta2));
}

}  // namespace

Value one_minus_power(double beta, Value step) {
  // With h = step·ln(1/beta)/2: 1 - exp(-2h) = 2 tanh(h) / (1 + tanh(h)).
  if (beta == 0) return constant(step, 1, step.dtype());
  const Value half = tanh(step * (-std::log(beta) / 2));
  return 2 * half / (1 + half);
}

namespace optim {

Lamb::operator Optimizer() const {
  require_fraction("optim::Lamb: beta1", beta1);
  require_fraction("optim::Lamb: beta2", beta2);
  auto update = [lamb = *this](Builder& builder, Value w, Value gradient, Value learning_rate,
                               Value step) {
    lamb_update(lamb, builder, w, gradient, learning_rate, step);
  };
  return {update, learning_rate};
}

Lion::operator Optimizer() const {
  require_fraction("optim::Lion: beta1", beta1);
  require_fraction("optim::Lion: beta2", beta2);
  auto update = [lion = *this](Builder& builder, Value w, Value gradient, Value learning_rate,
                               Value) { lion_update(lion, builder, w, gradient, learning_rate); };
  return {update, learning_rate};
}

}  // namespace optim
}  // namespace alpa
