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
};

/// Gradients of the loss averaged over micro-batches, then one optimizer update of every parameter. Metric
/// "loss" and those the model returns.
TrainingStep training_step(std::vector<BatchInput> inputs,
                           std::function<LossAndMetrics(const Batch&)> model, Optimizer optimizer,
                           StepOptions options = {});

/// The same without an optimizer: metrics only, parameters unchanged.
TrainingStep evaluation_step(std::vector<BatchInput> inputs,
                             std::function<LossAndMetrics(const Batch&)> model);

/// A step written directly on the graph; the function sees the micro-batch's inputs and the builder, makes
/// parameters, updates and metrics itself.
TrainingStep custom_step(std::vector<BatchInput> inputs, std::function<void(Builder&, const Batch&)> build,
                         std::function<std::map<std::string, double>(std::int64_t step)> scalars = {});

}  // namespace alpa
