#pragma once
/// A training step as for one device: batch inputs, a loss, an optimizer. Traced once per number of
/// micro-batches.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "alpa/ir/builder.h"
#include "alpa/train/optimizer.h"

namespace alpa {

/// A named batch input; dimension 0 is the batch.
struct BatchInput {
  std::string name;
  TensorType type;
};

/// The batch inputs while tracing.
class Batch {
 public:
  explicit Batch(std::map<std::string, Value> values) : values_(std::move(values)) {}
  /// Throws Error naming the known inputs.
  Value operator[](const std::string& name) const;
  /// The graph that is recorded, for parameters and constants of a model without layers.
  Builder& builder() const;

 private:
  std::map<std::string, Value> values_;
};

/// What a traced model returns: the loss to minimise and further scalars to report.
struct LossAndMetrics {
  Value loss;
  std::map<std::string, Value> metrics;
  LossAndMetrics(Value loss) : loss(loss) {}  // NOLINT: a plain loss is the usual case
  LossAndMetrics(Value loss, std::map<std::string, Value> metrics)
      : loss(loss), metrics(std::move(metrics)) {}
};

struct TrainingStep {
  std::vector<BatchInput> inputs;  ///< types of the whole batch
  std::function<Graph(int num_micro_batches)>
      trace;  ///< throws Error if the micro-batches do not divide the batch
  /// Values of the scalar inputs at a step (1 for the first): learning rate, step counter.
  std::function<std::map<std::string, double>(std::int64_t step)> scalars;
};

struct StepOptions {
  double clip_global_norm = 0;  ///< scales gradients so that their joint norm is at most this; 0: off
  /// Names of parameters that stay as they are, `*` for any text: {"encoder.*", "*.bias"}. They have
  /// neither gradient nor optimizer state.
  std::vector<std::string> frozen = {};
  /// Parameters with another optimizer than the step's. The first group that fits a name counts.
  std::vector<OptimizerGroup> groups = {};
};

/// Gradients of the loss averaged over micro-batches, then one optimizer update of every parameter that is
/// not frozen. A parameter that no gradient reaches, e.g. behind stop_gradient, is frozen. Metric "loss"
/// and those the model returns. `trace` throws Error if nothing is left to train, or if a pattern fits
/// nothing.
TrainingStep training_step(std::vector<BatchInput> inputs,
                           std::function<LossAndMetrics(const Batch&)> model, Optimizer optimizer,
                           StepOptions options = {});

/// The same without an optimizer: metrics only, parameters unchanged.
TrainingStep evaluation_step(std::vector<BatchInput> inputs,
                             std::function<LossAndMetrics(const Batch&)> model);

/// A step written directly on the graph; the function sees the micro-batch's inputs and the builder, makes
/// parameters, updates and metrics itself. What it does once per step, with the means below, it does in
/// `Region::apply`.
TrainingStep custom_step(std::vector<BatchInput> inputs, std::function<void(Builder&, const Batch&)> build,
                         std::function<std::map<std::string, double>(std::int64_t step)> scalars = {});

/// In a custom step: the mean of a floating value over the micro-batches, to be read once per step. `name`
/// is that of the sum; half-precision values are added up in f32. Throws Error if the name is taken.
Value mean_over_micro_batches(const std::string& name, Value value);

/// In a custom step: gradients of the mean of `loss` over the micro-batches, to be read once per step;
/// zeros for parameters that the loss does not depend on. Half-precision gradients are added up in f32.
/// `name` tells the gradients of several losses apart. Throws Error as `gradient` does, or if the name is
/// taken.
Values mean_gradients(Value loss, const Values& parameters, const std::string& name = "gradient");

/// Gradients scaled so that their joint Euclidean norm is at most `limit` (Pascanu et al. 2013).
Values clip_global_norm(const Values& gradients, double limit);

}  // namespace alpa
