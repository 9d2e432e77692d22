#pragma once
/// An optimizer as the training step sees it, and learning rates. `alpa/optim` has the rules.
#include <functional>
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

}  // namespace alpa
#pragma GCC visibility pop
