#include "alpa/train/training_step.h"

#include <algorithm>

#include "alpa/autograd/gradient.h"
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"

namespace alpa {
namespace {

using Model = std::function<LossAndMetrics(const Batch&)>;

void check_inputs(const std::vector<BatchInput>& inputs) {
  require(!inputs.empty(), "a step needs at least one batch input, e.g. {{\"x\", {{f32, {{32, 784}}}}}}");
  for (const BatchInput& input : inputs) {
    const Shape& shape = input.type.shape;
    require(!shape.empty(), "batch input \"{}\" is {}; its dimension 0 must be the batch", input.name,
            to_string(input.type));
    check_type(input.type, fmt::format("batch input \"{}\"", input.name));
    require(*std::min_element(shape.begin(), shape.end()) > 0,
            "batch input \"{}\" is {}; every extent must be at least 1", input.name, to_string(input.type));
    require(shape[0] == inputs[0].type.shape[0],
            "batch input \"{}\" is {} but \"{}\" is {}; dimension 0 of all is the batch and must agree",
            input.name, to_string(input.type), inputs[0].name, to_string(inputs[0].type));
  }
}

/// The inputs of one micro-batch.
Batch make_batch(Builder& builder, const std::vector<BatchInput>& inputs) {
  const int parts = builder.num_micro_batches();
  std::map<std::string, Value> values;
  for (const BatchInput& input : inputs) {
    TensorType type = input.type;
    require(type.shape[0] % parts == 0,
            "{} micro-batches do not divide the batch of {} (\"{}\" is {}); choose a divisor of {}", parts,
            type.shape[0], input.name, to_string(type), type.shape[0]);
    type.shape[0] /= parts;
    values.emplace(input.name, builder.input(InputKind::batch, input.name, type));
  }
  return Batch(std::move(values));
}

void check_scalar(const std::string& what, Value value) {
  require(static_cast<bool>(value), "the model returned no {}", what);
  require(value.rank() == 0, "the {} must be one number, not {}; average it with mean(…)", what,
          to_string(value.type()));
  require(is_floating(value.dtype()), "the {} must be floating, not {}; convert it with cast(…, f32)", what,
          to_string(value.type()));
}

LossAndMetrics trace_model(const Model& model, const Batch& batch) {
  LossAndMetrics result = model(batch);
  check_scalar("loss", result.loss);
  for (const auto& [name, value] : result.metrics) check_scalar("metric \"" + name + "\"", value);
  return result;
}

/// Sums of values over micro-batches. Sums of half-precision values are held in f32.
class Accumulation {
 public:
  explicit Accumulation(Builder& builder) : builder_(builder) {}

  /// Once per micro-batch: the running sum of `value`; the value itself if there is one micro-batch only.
  Value sum(const std::string& name, Value value) {
    if (builder_.num_micro_batches() == 1) return value;
    const DType dtype = value.dtype() == f64 ? f64 : f32;
    const Value before = builder_.input(InputKind::accumulator, name, {dtype, value.shape()});
    const Value after = before + cast(value, dtype);
    builder_.update(before, after);
    return after;
  }

  /// Once per step: the mean over micro-batches from the sum.
  Value mean(Value sum) const { return sum * (1.0 / builder_.num_micro_batches()); }

 private:
  Builder& builder_;
};

/// The loss and the other metrics, summed over micro-batches.
std::map<std::string, Value> metric_sums(const LossAndMetrics& result, Accumulation& accumulation) {
  std::map<std::string, Value> sums;
  sums.emplace("loss", accumulation.sum("loss.sum", result.loss));
  for (const auto& [name, value] : result.metrics) {
    require(name != "loss", "a metric can't be called \"loss\"; the loss itself is reported under this name");
    sums.emplace(name, accumulation.sum(name + ".sum", value));
  }
  return sums;
}

void report_means(Builder& builder, const std::map<std::string, Value>& sums,
                  const Accumulation& accumulation) {
  for (const auto& [name, sum] : sums) builder.metric(name, accumulation.mean(sum));
}

/// Gradients scaled so that their joint Euclidean norm is at most `limit` (Pascanu et al. 2013).
Values clip(const Values& gradients, double limit) {
  Value squares;
  for (const Value& gradient : gradients) {
    const Value own = sum(square(cast(gradient, gradient.dtype() == f64 ? f64 : f32)));
    squares = squares ? squares + cast(own, squares.dtype()) : own;
  }
  const Value scale = minimum(limit / maximum(sqrt(squares), 1e-30), 1.0);
  Values clipped;
  for (const Value& gradient : gradients) clipped.push_back(gradient * cast(scale, gradient.dtype()));
  return clipped;
}

/// Element type of the scalar inputs: f64 where parameters are, so that nothing is lost.
DType scalar_dtype(const Values& parameters) {
  const auto is_f64 = [](Value p) { return p.dtype() == f64; };
  return std::any_of(parameters.begin(), parameters.end(), is_f64) ? f64 : f32;
}

void update_parameters(Builder& builder, const Optimizer& optimizer, const Values& gradients) {
  const Values& parameters = builder.parameters();
  const DType dtype = scalar_dtype(parameters);
  const Value learning_rate = builder.input(InputKind::scalar, "learning_rate", {dtype, {}});
  const Value step = builder.input(InputKind::scalar, "step", {dtype, {}});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    optimizer.update(builder, parameters[i], gradients[i], learning_rate, step);
}

/// Gradients of `loss` summed over micro-batches, in the order of the parameters.
Values gradient_sums(Builder& builder, Value loss, Accumulation& accumulation) {
  const Values& parameters = builder.parameters();
  Values gradients = gradient(loss, parameters);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::string& name = builder.node(builder.producer(parameters[i].id)).name;
    gradients[i] = accumulation.sum(name + ".gradient", gradients[i]);
  }
  return gradients;
}

Graph trace_training(const std::vector<BatchInput>& inputs, const Model& model, const Optimizer& optimizer,
                     const StepOptions& options, int num_micro_batches) {
  Builder builder(num_micro_batches);
  Accumulation accumulation(builder);
  const LossAndMetrics result = trace_model(model, make_batch(builder, inputs));
  require(!builder.parameters().empty(),
          "the model has no parameters to train; for metrics alone use evaluation_step");
  // The mean over micro-batches costs nothing when taken here: the sum of the gradients of loss / n.
  const Value share = result.loss * (1.0 / num_micro_batches);
  const auto metrics = metric_sums(result, accumulation);
  builder.set_region(Region::backward);
  Values gradients = gradient_sums(builder, share, accumulation);
  builder.set_region(Region::apply);
  if (options.clip_global_norm > 0) gradients = clip(gradients, options.clip_global_norm);
  update_parameters(builder, optimizer, gradients);
  report_means(builder, metrics, accumulation);
  return builder.finish();
}

Graph trace_evaluation(const std::vector<BatchInput>& inputs, const Model& model, int num_micro_batches) {
  Builder builder(num_micro_batches);
  builder.set_training(false);
  Accumulation accumulation(builder);
  const auto metrics = metric_sums(trace_model(model, make_batch(builder, inputs)), accumulation);
  builder.set_region(Region::apply);
  report_means(builder, metrics, accumulation);
  return builder.finish();
}

std::map<std::string, double> no_scalars(std::int64_t) { return {}; }

}  // namespace

Value Batch::operator[](const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  std::string known;
  for (const auto& entry : values_) known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", entry.first);
  fail("the batch has no input \"{}\"; its inputs are {}", name, known);
}

TrainingStep training_step(std::vector<BatchInput> inputs,
                           std::function<LossAndMetrics(const Batch&)> model, Optimizer optimizer,
                           StepOptions options) {
  check_inputs(inputs);
  auto scalars = [rate = optimizer.learning_rate](std::int64_t step) {
    return std::map<std::string, double>{{"learning_rate", rate(step)},
                                         {"step", static_cast<double>(step)}};
  };
  auto trace = [inputs, model = std::move(model), optimizer = std::move(optimizer),
                options](int num_micro_batches) {
    return trace_training(inputs, model, optimizer, options, num_micro_batches);
  };
  return {inputs, trace, scalars};
}

TrainingStep evaluation_step(std::vector<BatchInput> inputs,
                             std::function<LossAndMetrics(const Batch&)> model) {
  check_inputs(inputs);
  auto trace = [inputs, model = std::move(model)](int num_micro_batches) {
    return trace_evaluation(inputs, model, num_micro_batches);
  };
  return {inputs, trace, no_scalars};
}

TrainingStep custom_step(std::vector<BatchInput> inputs, std::function<void(Builder&, const Batch&)> build,
                         std::function<std::map<std::string, double>(std::int64_t step)> scalars) {
  check_inputs(inputs);
  auto trace = [inputs, build = std::move(build)](int num_micro_batches) {
    Builder builder(num_micro_batches);
    build(builder, make_batch(builder, inputs));
    return builder.finish();
  };
  if (!scalars) scalars = no_scalars;
  return {inputs, trace, scalars};
}

}  // namespace alpa
