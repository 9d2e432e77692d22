#pragma once
/// Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), and LAMB, which scales AdamW's
/// steps (You et al. 2020).
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

/// ‖w‖ / ‖direction‖, or 1 where one of them is 0.
inline Value trust_ratio(Value w, Value direction) {
  const Value of_w = sqrt(squared_norm(w)), of_direction = sqrt(squared_norm(direction));
  return where(gt(minimum(of_w, of_direction), 0), of_w / of_direction, 1);
}

/// LAMB (You et al. 2020): AdamW's direction of every parameter, scaled to the parameter's norm.
/// The ratio of both norms is 1 where one of them is 0, and has no other bounds.
struct Lamb {
  LearningRate learning_rate = 1e-3;                                    ///< of a step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;  ///< as in the paper

  /// Adds the update of w by its gradient; state "<w>.lamb_m" and "<w>.lamb_v".
  void update(Builder& builder, Value w, Value gradient, Value rate, Value step) const {
    const DType dtype = update_dtype(w);
    const Value old = cast(w, dtype), g = cast(gradient, dtype), t = cast(step, dtype);
    const Value m = moment(w, "lamb_m"), v = moment(w, "lamb_v");
    const Value new_m = averaged(m, g, beta1), new_v = averaged(v, square(g), beta2);
    const Value corrected = new_m / one_minus_power(beta1, t);
    const Value deviation = sqrt(new_v / one_minus_power(beta2, t)) + epsilon;
    const Value direction = corrected / deviation + old * weight_decay;
    const Value size = cast(rate, dtype) * trust_ratio(old, direction);
    builder.update(w, cast(old - direction * size, w.dtype()));
    builder.update(m, new_m);
    builder.update(v, new_v);
  }

  operator Optimizer() const { return from_betas("Lamb", *this); }
};

}  // namespace alpa::optim
#pragma GCC visibility pop
