#pragma once
/// Parts of update rules, the library's and your own. A rule is a struct with a learning rate and
/// `update`, which adds the nodes of one parameter's update to the graph. Nothing in it speaks of
/// devices: the planner splits updates as it splits any other operator.
#include <string>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "alpa/train/optimizer.h"
#pragma GCC visibility push(default)

namespace alpa::optim {

/// The optimizer of a rule. `rule.learning_rate` is that of a step, and
/// `rule.update(builder, parameter, gradient, learning_rate, step)` is called once per parameter.
/// The last two are scalars f32; the step is 1 for the first.
template <class Rule>
Optimizer from_rule(Rule rule) {
  LearningRate rate = rule.learning_rate;
  return {[rule = std::move(rule)](Builder& builder, Value w, Value gradient, Value learning_rate,
                                   Value step) {
            rule.update(builder, w, gradient, learning_rate, step);
          },
          std::move(rate)};
}

/// Throws Error unless 0 <= value < 1. The message begins with rule and name: "optim::Lion: beta1".
inline void require_fraction(const char* rule, const char* name, double value) {
  require(value >= 0 && value < 1, "optim::{}: {} is {}; it must be at least 0 and less than 1",
          rule, name, value);
}

/// The optimizer of a rule with two moments' decays, which must be at least 0 and less than 1.
template <class Rule>
Optimizer from_betas(const char* name, Rule rule) {
  require_fraction(name, "beta1", rule.beta1);
  require_fraction(name, "beta2", rule.beta2);
  return from_rule(std::move(rule));
}

/// Element type of an update: parameters in half precision are updated in f32.
inline DType update_dtype(Value w) { return w.dtype() == f64 ? f64 : f32; }

/// State "<parameter>.<what>" of w, initially zero: of w's shape, in the type of its updates.
inline Value moment(Value w, const std::string& what) {
  return w.builder->optimizer_state(w, what, TensorType{update_dtype(w), w.shape()});
}

/// The moving average beta·average + (1 − beta)·x.
inline Value averaged(Value average, Value x, double beta) {
  return average * beta + x * (1 - beta);
}

/// x, floating, in bf16: each element is rounded to one of its two neighbours at random, so that
/// the mean over seeds and steps is x. The same under every plan, as `random_uniform`.
Value stochastic_bf16(Value x);

/// u8 codes of x in [-1, 1], or in [0, 1] unless signed: of the nearest value of bitsandbytes'
/// dynamic map (Dettmers et al. 2022, arXiv 2110.02861). What is outside has the code of the end.
Value dynamic_code(Value x, bool is_signed);
/// The values of codes, in f32.
Value dynamic_value(Value codes, bool is_signed);

/// 1 − beta^step, as exact as its element type is: for small steps the difference would not be.
Value one_minus_power(double beta, Value step);

}  // namespace alpa::optim
#pragma GCC visibility pop
