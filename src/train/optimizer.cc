// src/train/optimizer.cc — update nodes of SGD, Adam and AdamW
#include "alpa/train/optimizer.h"

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "composed_update.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/ops/simplify.h"

namespace alpa {
namespace {

/// w ← w − lr·(g + weight_decay·w), which needs no state.
void plain_sgd_update(Value w, Value gradient, Value learning_rate, double weight_decay) {
  const DType dtype = update_dtype(w.dtype());
  const Value old = cast(w, dtype);
  Value direction = cast(gradient, dtype);
  if (weight_decay != 0) direction = direction + old * weight_decay;
  recorder(w).update(w, cast(old - direction * cast(learning_rate, dtype), w.dtype()));
}

/// A gradient that was widened on its way here as it was before: updates read any floating type.
Value unwidened(Value gradient) {
  const Node* conversion = ops::producer_if(gradient, ops::cast);
  if (!conversion) return gradient;
  const Value narrow = recorder(gradient).operand(*conversion, 0);
  return is_floating(narrow.dtype()) && size_of(narrow.dtype()) < size_of(gradient.dtype())
             ? narrow
             : gradient;
}

void momentum_update(const optim::Sgd& sgd, Value w, Value gradient, Value learning_rate) {
  Builder& builder = *w.builder;
  const Value velocity = builder.optimizer_state(w, "velocity");
  const Values results = recorder(builder).emit(ops::multi_tensor_sgd,
                                                {w, velocity, unwidened(gradient), learning_rate},
                                                {{"momentum", sgd.momentum},
                                                 {"weight_decay", sgd.weight_decay},
                                                 {"nesterov", std::int64_t{sgd.nesterov}}});
  builder.update(w, results[0]);
  builder.update(velocity, results[1]);
}

Optimizer adam(LearningRate rate, double beta1, double beta2, double epsilon, double weight_decay) {
  const Attributes attributes = {{"beta1", beta1},
                                 {"beta2", beta2},
                                 {"epsilon", epsilon},
                                 {"weight_decay", weight_decay},
                                 {"decoupled", std::int64_t{1}}};
  auto update = [attributes](Builder& builder, Value w, Value gradient, Value learning_rate,
                             Value step) {
    const Value m = builder.optimizer_state(w, "adam_m"), v = builder.optimizer_state(w, "adam_v");
    const Values results = recorder(builder).emit(
        ops::multi_tensor_adam, {w, m, v, unwidened(gradient), learning_rate, step}, attributes);
    builder.update(w, results[0]);
    builder.update(m, results[1]);
    builder.update(v, results[2]);
  };
  return {update, std::move(rate)};
}

}  // namespace

DType update_dtype(DType dtype) { return dtype == f64 ? f64 : f32; }

void require_fraction(const char* what, double value) {
  require(value >= 0 && value < 1, "{} is {}; it must be at least 0 and less than 1", what, value);
}

namespace optim {

Sgd::operator Optimizer() const {
  require_fraction("optim::Sgd: momentum", momentum);
  require(!nesterov || momentum > 0, "optim::Sgd: nesterov needs a momentum above 0");
  auto update = [sgd = *this](Builder&, Value w, Value gradient, Value learning_rate, Value) {
    if (sgd.momentum == 0) return plain_sgd_update(w, gradient, learning_rate, sgd.weight_decay);
    momentum_update(sgd, w, gradient, learning_rate);
  };
  return {update, learning_rate};
}

Adam::operator Optimizer() const {
  require_fraction("optim::Adam: beta1", beta1);
  require_fraction("optim::Adam: beta2", beta2);
  return adam(learning_rate, beta1, beta2, epsilon, 0);
}

AdamW::operator Optimizer() const {
  require_fraction("optim::AdamW: beta1", beta1);
  require_fraction("optim::AdamW: beta2", beta2);
  return adam(learning_rate, beta1, beta2, epsilon, weight_decay);
}

}  // namespace optim
}  // namespace alpa
