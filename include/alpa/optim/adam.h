#pragma once
/// Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), and LAMB, which scales AdamW's
/// steps (You et al. 2020).
#include <cstdint>

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

/// AdamW's direction of moments m and v after `step` steps, without weight decay.
inline Value adam_direction(Value m, Value v, Value step, double beta1, double beta2,
                            double epsilon) {
  const Value corrected = m / one_minus_power(beta1, step);
  return corrected / (sqrt(v / one_minus_power(beta2, step)) + epsilon);
}

/// How moments are kept between steps. Updates read them as they were before they are rounded.
enum class Moments : std::uint8_t {
  full,  ///< in the parameter's element type: eight bytes of a parameter in f32
  /// In bf16, each rounded to one of its neighbours at random (`stochastic_bf16`): four bytes. So
  /// is a parameter in bf16. The random numbers depend on the seed and the step, not on the plan.
  bf16,
  /// In codes (`dynamic_code`) and an f32 scale for each 256 elements, which are neighbours in
  /// row-major order, as bitsandbytes' AdamW8bit: 2 + 1/32 bytes. Parameters of fewer than 4,096
  /// elements, or of no multiple of 256, have full moments.
  eight_bit,
};

/// AdamW: decoupled weight decay (Loshchilov and Hutter 2019).
struct AdamW {
  LearningRate learning_rate = 1e-3;                                       ///< of a step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;  ///< as in the paper
  Moments moments = Moments::full;                                         ///< how they are kept

  /// Adds the update of w by its gradient; state "<w>.adam_m" and "<w>.adam_v", for 8 bits also
  /// "<w>.adam_m_scale" and "<w>.adam_v_scale".
  void update(Builder& builder, Value w, Value gradient, Value rate, Value step) const;

  operator Optimizer() const { return from_betas("AdamW", *this); }
};

/// Adam (Kingma and Ba 2015, algorithm 1): AdamW without weight decay.
struct Adam {
  LearningRate learning_rate = 1e-3;                  ///< of a step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< as in the paper

  operator Optimizer() const {
    return from_betas("Adam", AdamW{learning_rate, beta1, beta2, epsilon, 0, Moments::full});
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
    const Value direction =
        adam_direction(new_m, new_v, t, beta1, beta2, epsilon) + old * weight_decay;
    const Value size = cast(rate, dtype) * trust_ratio(old, direction);
    builder.update(w, cast(old - direction * size, w.dtype()));
    builder.update(m, new_m);
    builder.update(v, new_v);
  }

  operator Optimizer() const { return from_betas("Lamb", *this); }
};

}  // namespace alpa::optim
#pragma GCC visibility pop
