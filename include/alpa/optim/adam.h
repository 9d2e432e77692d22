#pragma once
/// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).
#include "alpa/optim/rule.h"
#pragma GCC visibility push(default)

namespace alpa::optim {

/// Numbers of an update of Adam, as in the papers.
struct AdamNumbers {
  double beta1, beta2, epsilon;  ///< decay of both moments; added to the root of the second
  double weight_decay;           ///< decoupled
};

/// One node: the new parameter and moments, m ← beta1·m + (1 − beta1)·g,
/// v ← beta2·v + (1 − beta2)·g², w ← w − lr·(m' / (√v' + epsilon) + weight_decay·w), where m'
/// and v' are m and v over 1 − beta^step. `gradient` is of any floating type, m and v are of w's.
Values adam_update(Value w, Value m, Value v, Value gradient, Value learning_rate, Value step,
                   const AdamNumbers& numbers);

/// AdamW: decoupled weight decay (Loshchilov and Hutter 2019).
struct AdamW {
  LearningRate learning_rate = 1e-3;                                       ///< of a step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;  ///< as in the paper

  /// Adds the update of w by its gradient; state "<w>.adam_m" and "<w>.adam_v".
  void update(Builder& builder, Value w, Value gradient, Value rate, Value step) const {
    const Value m = builder.optimizer_state(w, "adam_m"), v = builder.optimizer_state(w, "adam_v");
    const Values next =
        adam_update(w, m, v, gradient, rate, step, {beta1, beta2, epsilon, weight_decay});
    builder.update(w, next[0]);
    builder.update(m, next[1]);
    builder.update(v, next[2]);
  }

  operator Optimizer() const { return from_betas("AdamW", *this); }
};

/// Adam (Kingma and Ba 2015, algorithm 1): AdamW without weight decay.
struct Adam {
  LearningRate learning_rate = 1e-3;                  ///< of a step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< as in the paper

  operator Optimizer() const {
    return from_betas("Adam", AdamW{learning_rate, beta1, beta2, epsilon, 0});
  }
};

}  // namespace alpa::optim
#pragma GCC visibility pop
