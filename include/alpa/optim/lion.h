#pragma once
/// Lion, which keeps one moment (Chen et al. 2023).
#include "alpa/optim/rule.h"
#pragma GCC visibility push(default)

namespace alpa::optim {

/// Lion (Chen et al. 2023): w ← w − lr·(sign(beta1·m + (1 − beta1)·g) + weight_decay·w),
/// m ← beta2·m + (1 − beta2)·g. Takes a learning rate 3 to 10 times smaller than AdamW's.
struct Lion {
  LearningRate learning_rate = 1e-4;                   ///< of a step
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;  ///< as in the formula

  /// Adds the update of w by its gradient; state "<w>.lion_m".
  void update(Builder& builder, Value w, Value gradient, Value rate, Value) const {
    const DType dtype = update_dtype(w);
    const Value old = cast(w, dtype), g = cast(gradient, dtype), m = moment(w, "lion_m");
    const Value direction = sign(averaged(m, g, beta1)) + old * weight_decay;
    builder.update(w, cast(old - direction * cast(rate, dtype), w.dtype()));
    builder.update(m, averaged(m, g, beta2));
  }

  operator Optimizer() const { return from_betas("Lion", *this); }
};

}  // namespace alpa::optim
#pragma GCC visibility pop
