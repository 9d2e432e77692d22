#pragma once
/// Optimizers as graph builders: each adds its state inputs and update nodes
/// for one parameter at a time.
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "alpa/ir/builder.h"
#pragma GCC visibility push(default)

namespace alpa {

/// The learning rate as a function of the step, 1 for the first. It is a scalar input of the graph,
/// so changing it needs no new plan.
using Schedule = std::function<double(std::int64_t step)>;

/// A learning rate: a constant (`.learning_rate = 1e-3`) or a function of the step, such as a
/// lambda or `warmup_cosine(…)`.
class LearningRate {
 public:
  LearningRate(double constant)  // NOLINT: converts
      : rate_([constant](std::int64_t) { return constant; }) {}
  template <class Rate>
  requires std::is_invocable_r_v<double, Rate&, std::int64_t> LearningRate(Rate rate)
      : rate_(std::move(rate)) {}  // NOLINT: converts
  double operator()(std::int64_t step) const { return rate_(step); }

 private:
  Schedule rate_;
};

/// `from` at step 0, `to` at step `steps` and from then on, on a straight line between.
Schedule linear_schedule(double from, double to, std::int64_t steps);
/// The same along half a cosine (Loshchilov and Hutter 2017, without restarts).
Schedule cosine_schedule(double from, double to, std::int64_t steps);

/// A part of a schedule: `rate` for `steps` steps, which it counts from 1.
struct SchedulePart {
  std::int64_t steps;  ///< of this part
  LearningRate rate;   ///< in this part
};
/// The parts one after the other, then `last`, which counts its steps from 1 too:
/// `join_schedules({{100, linear_schedule(0, 1e-3, 100)}}, 1e-3)`.
Schedule join_schedules(std::vector<SchedulePart> parts, LearningRate last);

// Linear warm-up from 0 over `warmup` steps to `peak`, and then …
/// … the peak.
Schedule warmup_constant(double peak, std::int64_t warmup);
/// … cosine decay to `floor` at step `total`.
Schedule warmup_cosine(double peak, std::int64_t warmup, std::int64_t total, double floor = 0);
/// … linear decay to `floor` at step `total`.
Schedule warmup_linear(double peak, std::int64_t warmup, std::int64_t total, double floor = 0);
/// … decay as 1/sqrt(step) (Vaswani et al. 2017).
Schedule warmup_inverse_sqrt(double peak, std::int64_t warmup);

/// Type-erased optimizer.
struct Optimizer {
  /// Adds nodes that update `parameter` by `gradient`; `learning_rate` and
  /// `step` are scalar inputs f32[].
  std::function<void(Builder&, Value parameter, Value gradient, Value learning_rate, Value step)>
      update;
  LearningRate learning_rate = 0.0;  ///< of a step
};

/// An optimizer for parameters whose names match `parameters`; `*` matches any text. For example,
/// {"*.bias", optim::AdamW{.weight_decay = 0}} masks the weight decay of biases.
struct OptimizerGroup {
  std::string parameters;  ///< pattern of names
  Optimizer optimizer;     ///< of these parameters
};

namespace optim {

/// w ← w − lr·v, v ← momentum·v + g + weight_decay·w (Sutskever et al. 2013); Nesterov if asked.
struct Sgd {
  LearningRate learning_rate = 1e-2;  ///< of a step
  double momentum = 0;                ///< 0: none is kept
  double weight_decay = 0;            ///< added to the gradient, times the parameter
  bool nesterov = false;              ///< Nesterov's momentum
  operator Optimizer() const;
};

/// Adam (Kingma and Ba 2015, algorithm 1).
struct Adam {
  LearningRate learning_rate = 1e-3;                  ///< of a step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< as in the paper
  operator Optimizer() const;
};

/// AdamW: decoupled weight decay (Loshchilov and Hutter 2019).
struct AdamW {
  LearningRate learning_rate = 1e-3;                                       ///< of a step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;  ///< as in the paper
  operator Optimizer() const;
};

/// LAMB (You et al. 2020): AdamW's direction of every parameter, scaled to the parameter's norm.
/// The ratio of both norms is 1 where one of them is 0, and has no other bounds.
struct Lamb {
  LearningRate learning_rate = 1e-3;                                    ///< of a step
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;  ///< as in the paper
  operator Optimizer() const;
};

/// Lion (Chen et al. 2023): w ← w − lr·(sign(beta1·m + (1 − beta1)·g) + weight_decay·w),
/// m ← beta2·m + (1 − beta2)·g. Takes a learning rate 3 to 10 times smaller than AdamW's.
struct Lion {
  LearningRate learning_rate = 1e-4;                   ///< of a step
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;  ///< as in the formula
  operator Optimizer() const;
};

/// Adafactor (Shazeer and Stern 2018): second moments of a matrix are kept as means of its rows
/// ("<p>.adafactor_rows") and columns ("<p>.adafactor_columns").
struct Adafactor {
  /// The paper's relative step.
  LearningRate learning_rate = [](std::int64_t step) {
    return step < 10'000 ? 1e-2 : 1 / std::sqrt(static_cast<double>(step));
  };
  double decay = 0.8;       ///< beta2 of step t is 1 - t^-decay
  double epsilon = 1e-30;   ///< added to squared gradients
  double clip_rms = 1;      ///< largest root mean square of a parameter's direction; 0: any
  double momentum = 0;      ///< of the update; 0 keeps none
  double weight_decay = 0;  ///< decoupled; not multiplied by the learning rate
  /// The step is multiplied by the parameter's root mean square, at least 1e-3.
  bool relative_to_parameter = true;
  /// Parameters with two extents of at least this are factored, along their two largest.
  std::int64_t min_factored_extent = 128;
  operator Optimizer() const;
};

}  // namespace optim
}  // namespace alpa
#pragma GCC visibility pop
