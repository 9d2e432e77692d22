#pragma once
/// Stochastic gradient descent, with momentum (Sutskever et al. 2013).
#include "alpa/optim/rule.h"
#pragma GCC visibility push(default)

namespace alpa::optim {

/// One node: the new parameter and velocity, v ← momentum·v + g + weight_decay·w, w ← w − lr·v;
/// with Nesterov's momentum w ← w − lr·(g + weight_decay·w + momentum·v). `gradient` is of any
/// floating type, `velocity` of w's type.
Values momentum_update(Value w, Value velocity, Value gradient, Value learning_rate,
                       double momentum, double weight_decay, bool nesterov);

/// w ← w − lr·v, v ← momentum·v + g + weight_decay·w (Sutskever et al. 2013); Nesterov if asked.
struct Sgd {
  LearningRate learning_rate = 1e-2;  ///< of a step
  double momentum = 0;                ///< 0: none is kept
  double weight_decay = 0;            ///< added to the gradient, times the parameter
  bool nesterov = false;              ///< Nesterov's momentum

  /// Adds the update of w by its gradient; state "<w>.velocity" if there is momentum.
  void update(Builder& builder, Value w, Value gradient, Value rate, Value) const {
    if (momentum > 0) {
      const Value velocity = builder.optimizer_state(w, "velocity");
      const Values next =
          momentum_update(w, velocity, gradient, rate, momentum, weight_decay, nesterov);
      builder.update(w, next[0]);
      builder.update(velocity, next[1]);
      return;
    }
    const DType dtype = update_dtype(w);
    const Value old = cast(w, dtype);
    Value direction = cast(gradient, dtype);
    if (weight_decay != 0) direction = direction + old * weight_decay;
    builder.update(w, cast(old - direction * cast(rate, dtype), w.dtype()));
  }

  operator Optimizer() const {
    require_fraction("Sgd", "momentum", momentum);
    require(!nesterov || momentum > 0, "optim::Sgd: nesterov needs a momentum above 0");
    return from_rule(*this);
  }
};

}  // namespace alpa::optim
#pragma GCC visibility pop
