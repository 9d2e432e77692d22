#pragma once
/// Optimizers as graph builders: each adds its state inputs and update nodes
/// for one parameter at a time.
#include <functional>
#include <map>
#include <string>
#include <type_traits>

#include "alpa/ir/builder.h"

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

/// Linear warm-up over `warmup` steps to `peak`, then cosine decay to `floor` at step `total`.
Schedule warmup_cosine(double peak, std::int64_t warmup, std::int64_t total, double floor = 0);

/// Type-erased optimizer.
struct Optimizer {
  /// Adds nodes that update `parameter` by `gradient`; `learning_rate` and
  /// `step` are scalar inputs f32[].
  std::function<void(Builder&, Value parameter, Value gradient, Value learning_rate, Value step)>
      update;
  LearningRate learning_rate = 0.0;
};

/// An optimizer for parameters whose names match `parameters`; `*` matches any text, e.g.
/// {"*.bias", optim::AdamW{.weight_decay = 0}}.
struct OptimizerGroup {
  std::string parameters;
  Optimizer optimizer;
};

namespace optim {

/// w ← w − lr·v, v ← momentum·v + g + weight_decay·w (Sutskever et al. 2013); Nesterov if asked.
struct Sgd {
  LearningRate learning_rate = 1e-2;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  operator Optimizer() const;
};

/// Adam (Kingma and Ba 2015, algorithm 1).
struct Adam {
  LearningRate learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  operator Optimizer() const;
};

/// AdamW: decoupled weight decay (Loshchilov and Hutter 2019).
struct AdamW {
  LearningRate learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  operator Optimizer() const;
};

}  // namespace optim
}  // namespace alpa
