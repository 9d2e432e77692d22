// src/optim/fused_updates.cc — updates that are one node, which backends fuse over all parameters
#include "alpa/optim/adam.h"
#include "alpa/optim/sgd.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/ops/simplify.h"

namespace alpa::optim {
namespace {

/// A gradient that was widened on its way here as it was before: updates read any floating type.
Value unwidened(Value gradient) {
  const Node* conversion = ops::producer_if(gradient, ops::cast);
  if (!conversion) return gradient;
  const Value narrow = recorder(gradient).operand(*conversion, 0);
  return is_floating(narrow.dtype()) && size_of(narrow.dtype()) < size_of(gradient.dtype())
             ? narrow
             : gradient;
}

}  // namespace

Values momentum_update(Value w, Value velocity, Value gradient, Value learning_rate,
                       double momentum, double weight_decay, bool nesterov) {
  return recorder(w).emit(ops::multi_tensor_sgd, {w, velocity, unwidened(gradient), learning_rate},
                          {{"momentum", momentum},
                           {"weight_decay", weight_decay},
                           {"nesterov", std::int64_t{nesterov}}});
}

Values adam_update(Value w, Value m, Value v, Value gradient, Value learning_rate, Value step,
                   const AdamNumbers& numbers) {
  return recorder(w).emit(ops::multi_tensor_adam,
                          {w, m, v, unwidened(gradient), learning_rate, step},
                          {{"beta1", numbers.beta1},
                           {"beta2", numbers.beta2},
                           {"epsilon", numbers.epsilon},
                           {"weight_decay", numbers.weight_decay},
                           {"decoupled", std::int64_t{1}}});
}

}  // namespace alpa::optim
