// src/train/training_step.cc — traces training, evaluation and custom steps into graphs
#include "alpa/train/training_step.h"

#include <algorithm>
#include <ranges>

#include "accumulation.h"
#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/ops/ops.h"
#include "loss_scaling.h"
#include "parameter_pattern.h"
#include "precision.h"
#include "src/autograd/elementwise_again.h"
#include "src/ir/input.h"
#include "src/ir/recorder.h"

namespace alpa {
namespace {

using Model = std::function<LossAndMetrics(const Batch&)>;

/// How messages call an input.
std::string text_of(const BatchInput& input) {
  return fmt::format("{}input \"{}\"", input.batched ? "batch " : "", input.name);
}

void check_inputs(const std::vector<BatchInput>& inputs) {
  const auto first =
      std::find_if(inputs.begin(), inputs.end(), [](const BatchInput& i) { return i.batched; });
  require(first != inputs.end(),
          "a step needs at least one batch input, e.g. {{\"x\", {{f32, {{32, 784}}}}}}");
  for (const BatchInput& input : inputs) {
    const Shape& shape = input.type.shape;
    require(!input.batched || !shape.empty(), "{} is {}; its dimension 0 must be the batch",
            text_of(input), to_string(input.type));
    check_type(input.type, text_of(input));
    require(std::find_if(shape.begin(), shape.end(), [](auto e) { return e < 1; }) == shape.end(),
            "{} is {}; every extent must be at least 1", text_of(input), to_string(input.type));
    require(
        !input.batched || shape[0] == first->type.shape[0],
        "batch input \"{}\" is {} but \"{}\" is {}; dimension 0 of all is the batch and must agree",
        input.name, to_string(input.type), first->name, to_string(first->type));
  }
}

/// An input as a micro-batch sees it.
Value make_input(Recorder& builder, const BatchInput& input) {
  TensorType type = input.type;
  const InputKind kind = input.batched      ? InputKind::batch
                         : type.rank() == 0 ? InputKind::scalar
                                            : InputKind::shared;
  const int parts = builder.num_micro_batches();
  if (input.batched) {
    require(type.shape[0] % parts == 0,
            "{} micro-batches do not divide the batch of {} (\"{}\" is {}); choose a divisor of {}",
            parts, type.shape[0], input.name, to_string(type), type.shape[0]);
    type.shape[0] /= parts;
  }
  return builder.input(kind, input.name, type);
}

/// The inputs of one micro-batch, as a model of this precision reads them.
Batch make_batch(Recorder& builder, const std::vector<BatchInput>& inputs,
                 Precision precision = Precision::as_written) {
  builder.set_parameter_view(view_of(precision));
  std::map<std::string, Value> values;
  for (const BatchInput& input : inputs) values.emplace(input.name, make_input(builder, input));
  for (auto& [name, value] : values) value = in_precision(value, precision);
  return Batch(std::move(values));
}

void check_scalar(const std::string& what, Value value) {
  require(static_cast<bool>(value), "the model returned no {}", what);
  require(value.rank() == 0, "the {} must be one number, not {}; average it with mean(…)", what,
          to_string(value.type()));
  require(is_floating(value.dtype()),
          "the {} must be floating, not {}; convert it with cast(…, f32)", what,
          to_string(value.type()));
}

LossAndMetrics trace_model(const Model& model, const Batch& batch) {
  const LayerScope layers_of_the_model(batch.builder(), batch.builder().layer());
  LossAndMetrics result = model(batch);
  check_scalar("loss", result.loss);
  Values read{result.loss};
  for (const auto& [name, value] : result.metrics) {
    check_scalar("metric \"" + name + "\"", value);
    read.push_back(value);
  }
  if (result.weight) {
    check_scalar("weight", result.weight);
    read.push_back(result.weight = stop_gradient(result.weight));
  }
  recorder(batch.builder()).order_parameters(read);
  return result;
}

/// A scalar of the result as it is summed over micro-batches.
Value weighted(const LossAndMetrics& result, Value value) {
  if (!result.weight || recorder(value).num_micro_batches() == 1) return value;
  return value * cast(result.weight, value.dtype());
}

/// The loss and the other metrics, summed over micro-batches.
std::map<std::string, Value> metric_sums(const LossAndMetrics& result) {
  std::map<std::string, Value> sums;
  sums.emplace("loss", micro_batch_sum("loss.sum", weighted(result, result.loss)));
  if (result.weight) sums.emplace(kLossWeight, micro_batch_sum("loss_weight.sum", result.weight));
  for (const auto& [name, value] : result.metrics) {
    require(!sums.contains(name),
            "a metric can't be called \"{0}\"; the {0} itself is reported under this name", name);
    sums.emplace(name, micro_batch_sum(name + ".sum", weighted(result, value)));
  }
  return sums;
}

/// What sums of weighted scalars are multiplied by to be means, in the region apply; empty: 1.
Value inverse_weight(Recorder& builder, const std::map<std::string, Value>& sums) {
  const auto weight = sums.find(kLossWeight);
  if (weight == sums.end() || builder.num_micro_batches() == 1) return {};
  const Value mean = mean_of_sum(weight->second);
  return 1 / where(gt(mean, 0), mean, constant(mean, 1, mean.dtype()));
}

Value times(Value value, Value factor) {
  return factor ? value * cast(factor, value.dtype()) : value;
}

void report_means(Recorder& builder, const std::map<std::string, Value>& sums) {
  const Value inverse = inverse_weight(builder, sums);
  for (const auto& [name, sum] : sums)
    builder.metric(name, times(mean_of_sum(sum), name == kLossWeight ? Value{} : inverse));
}

/// Element type of the scalar inputs: f64 where parameters are, so that nothing is lost.
DType scalar_dtype(const Values& parameters) {
  const auto is_f64 = [](Value p) { return p.dtype() == f64; };
  return std::any_of(parameters.begin(), parameters.end(), is_f64) ? f64 : f32;
}

/// The scalar input of a group's learning rate.
std::string rate_name(const OptimizerGroup& group) {
  return "learning_rate of " + group.parameters;
}

/// An optimizer and its learning rate in the graph.
struct RatedOptimizer {
  const Optimizer* optimizer;
  Value learning_rate;
};

void update_parameters(Recorder& builder, const Optimizer& optimizer,
                       const std::vector<OptimizerGroup>& groups, const Values& gradients,
                       Value step, ScaledLoss& scaled) {
  const Values& parameters = builder.parameters();
  const TensorType scalar{scalar_dtype(parameters), {}};
  const RatedOptimizer usual{&optimizer, builder.input(InputKind::scalar, "learning_rate", scalar)};
  std::vector<RatedOptimizer> rated;
  for (const OptimizerGroup& group : groups)
    rated.push_back({&group.optimizer, builder.input(InputKind::scalar, rate_name(group), scalar)});
  const auto of = [&](Value parameter) {
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (matches(groups[g].parameters, name_of(parameter))) return rated[g];
    return usual;
  };
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& [chosen, rate] = of(parameters[i]);
    chosen->update(builder, parameters[i], gradients[i], rate, step);
    scaled.guard_updates();
  }
}

/// Whether a parameter is frozen: by name, or for not being part of an adapter.
bool is_frozen(const StepOptions& options, std::string_view name) {
  return matches_any(options.frozen, name) || (options.lora && !is_adapter(name));
}

/// Freezes what the options name. Throws Error if a pattern matches no parameter, or if no
/// parameter is left to train.
void apply_patterns(Recorder& builder, const StepOptions& options) {
  require(!builder.parameters().empty(),
          "the model has no parameters to train; for metrics alone use evaluation_step");
  std::vector<std::string> groups;
  for (const OptimizerGroup& group : options.groups) groups.push_back(group.parameters);
  require_matches(builder, groups, "groups");
  require_matches(builder, options.frozen, "frozen");
  builder.check_layer_patterns();
  builder.freeze_named();
  require(!builder.parameters().empty(),
          "StepOptions::frozen freezes every parameter of the model; for metrics alone use "
          "evaluation_step");
}

/// Gradients of all parameters that `share` depends on, summed over
/// micro-batches; the others are frozen.
Values trained_gradients(Recorder& builder, Value share) {
  const Values parameters = builder.parameters();
  Values reached, gradients = gradient_sums(share, parameters, "gradient");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (gradients[i])
      reached.push_back(gradients[i]);
    else
      builder.freeze(parameters[i]);
  }
  require(!reached.empty(),
          "the loss depends on no parameter of the model; for metrics alone use evaluation_step");
  return reached;
}

/// The layers that are computed again; none: all that there are.
std::optional<std::vector<int>> rematerialised(Remat remat, const TraceOptions& tracing) {
  if (tracing.remat) return tracing.remat;
  if (remat == Remat::none || remat == Remat::automatic) return std::vector<int>{};
  return std::nullopt;
}

/// Throws Error if there is no layer to choose from.
void check_remat(Recorder& builder, Remat remat) {
  if (remat != Remat::all && remat != Remat::automatic) return;
  require(builder.remat_layers_of_model() > 0,
          "StepOptions::remat: the model has no layers that could be computed again; wrap some in "
          "nn::remat, or mark them with LayerScope or mark_pipeline_boundary (AutoLayers ignore "
          "these)");
}

Graph trace_training(const std::vector<BatchInput>& inputs, const Model& model,
                     const Optimizer& optimizer, const StepOptions& options,
                     const TraceOptions& tracing) {
  Recorder builder(tracing.num_micro_batches, tracing.layer_per_node);
  builder.set_remat(rematerialised(options.remat, tracing));
  builder.set_frozen_names([&](std::string_view name) { return is_frozen(options, name); });
  builder.set_lora(options.lora);
  builder.set_quantized(options.quantized);
  const LossAndMetrics result = trace_model(model, make_batch(builder, inputs, options.precision));
  check_remat(builder, options.remat);
  apply_patterns(builder, options);
  ScaledLoss scaled(builder, weighted(result, result.loss), loss_scale_of(options));
  // The mean over micro-batches costs nothing when taken here: the sum of
  // the gradients of loss / n.
  const Value share = scaled.loss() * (1.0 / tracing.num_micro_batches);
  const auto metrics = metric_sums(result);
  builder.set_region(Region::backward);
  Values gradients = trained_gradients(builder, share);
  builder.set_region(Region::apply);
  gradients = scaled.unscaled(gradients);
  for (const Value inverse = inverse_weight(builder, metrics); Value & gradient : gradients)
    gradient = times(gradient, inverse);
  if (options.clip_global_norm > 0)
    gradients = clip_global_norm(gradients, options.clip_global_norm);
  const Value step = scaled.step(
      builder.input(InputKind::scalar, "step", {scalar_dtype(builder.parameters()), {}}));
  update_parameters(builder, optimizer, options.groups, gradients, step, scaled);
  if (options.ema != 0) average_parameters(builder, options.ema, step);
  scaled.guard_updates();
  scaled.update_scale();
  report_means(builder, metrics);
  return with_elementwise_again(builder.finish(), tracing.layer_per_node);
}

Graph trace_evaluation(const std::vector<BatchInput>& inputs, const Model& model,
                       const EvaluationOptions& options, const TraceOptions& tracing) {
  Recorder builder(tracing.num_micro_batches, tracing.layer_per_node);
  builder.set_training(false);
  builder.set_remat(std::vector<int>{});
  builder.set_lora(options.lora);
  builder.set_quantized(options.quantized);
  const auto metrics =
      metric_sums(trace_model(model, make_batch(builder, inputs, options.precision)));
  builder.check_layer_patterns();
  read_averages(builder, options);
  builder.set_region(Region::apply);
  report_means(builder, metrics);
  return builder.finish();
}

Graph trace_prediction(const std::vector<BatchInput>& inputs,
                       const std::function<Predictions(const Batch&)>& model,
                       const EvaluationOptions& options, const TraceOptions& tracing) {
  Recorder builder(tracing.num_micro_batches, tracing.layer_per_node);
  builder.set_training(false);
  builder.set_remat(std::vector<int>{});
  builder.set_lora(options.lora);
  builder.set_quantized(options.quantized);
  const Predictions predictions = model(make_batch(builder, inputs, options.precision));
  builder.check_layer_patterns();
  require(!predictions.values.empty(), "the model returned no tensors; name one at least");
  Values read;
  for (const auto& [name, value] : predictions.values) {
    output(name, in_user_precision(value, options.precision));
    read.push_back(value);
  }
  builder.order_parameters(read);
  read_averages(builder, options);
  return builder.finish();
}

/// Throws Error if two groups have one pattern: the second would never count.
void check_groups(const std::vector<OptimizerGroup>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t h = 0; h < g; ++h)
      require(groups[g].parameters != groups[h].parameters,
              "StepOptions::groups: \"{}\" is listed twice; remove one, "
              "since the first matching group applies",
              excerpt(groups[g].parameters));
}

std::map<std::string, double> no_scalars(std::int64_t) { return {}; }

/// Throws Error unless each scalar that a custom step reads is an input of it, or among the given.
void check_scalars(const Graph& graph, const std::vector<BatchInput>& inputs,
                   const std::map<std::string, double>& given) {
  for (const std::string& name : input_names(graph, InputKind::scalar)) {
    const bool is_given =
        given.contains(name) || std::ranges::find(inputs, name, &BatchInput::name) != inputs.end();
    require(is_given,
            "custom_step: the step reads scalar \"{}\", but its scalars are {}; return it from the "
            "third argument of custom_step, or list it among the inputs",
            name, given.empty() ? "none" : quoted_names(given | std::views::keys));
  }
}

std::vector<BatchInput> with_rows(std::vector<BatchInput> inputs, std::int64_t rows) {
  for (BatchInput& input : inputs)
    if (input.batched) input.type.shape[0] = rows;
  return inputs;
}

/// Traces a step for its inputs.
using TraceOfInputs =
    std::function<Graph(const std::vector<BatchInput>& inputs, const TraceOptions& tracing)>;

/// The step that `trace` makes of these inputs, and of any other number of rows.
TrainingStep traced_by(
    const TraceOfInputs& trace, std::vector<BatchInput> inputs,
    const std::function<std::map<std::string, double>(std::int64_t step)>& scalars = no_scalars) {
  check_inputs(inputs);
  const auto with_batch = [=](std::int64_t rows) {
    return traced_by(trace, with_rows(inputs, rows), scalars);
  };
  return {inputs, [=](const TraceOptions& tracing) { return trace(inputs, tracing); }, scalars,
          with_batch};
}

}  // namespace

Value Batch::operator[](const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& entry : values_) known.push_back(entry.first);
  fail("the batch has no input \"{}\"; its inputs are {}", name, quoted_names(known));
}

Builder& Batch::builder() const {
  require(!values_.empty(),
          "the batch is empty, so it has no builder; "
          "give the step at least one input");
  return values_.begin()->second;
}

std::vector<BatchInput> inputs_of(const BatchData& example, const std::vector<std::string>& whole) {
  std::vector<BatchInput> inputs;
  for (const auto& [name, array] : example) {
    const bool number = array.shape().empty();
    const bool named = std::find(whole.begin(), whole.end(), name) != whole.end();
    inputs.push_back({name, number ? TensorType{f32, {}} : array.type(), !number && !named});
  }
  for (const std::string& name : whole)
    require(example.contains(name),
            "inputs_of: the example has no \"{}\" to be given whole; it has {}", excerpt(name),
            quoted_names(example | std::views::keys));
  return inputs;
}

TrainingStep training_step(std::vector<BatchInput> inputs,
                           std::function<LossAndMetrics(const Batch&)> model, Optimizer optimizer,
                           StepOptions options) {
  check_groups(options.groups);
  check_loss_scale(options);
  auto scalars = [rate = optimizer.learning_rate, groups = options.groups](std::int64_t step) {
    std::map<std::string, double> values{{"learning_rate", rate(step)},
                                         {"step", static_cast<double>(step)}};
    for (const OptimizerGroup& group : groups)
      values[rate_name(group)] = group.optimizer.learning_rate(step);
    return values;
  };
  auto trace = [=](const std::vector<BatchInput>& rows, const TraceOptions& tracing) {
    return trace_training(rows, model, optimizer, options, tracing);
  };
  TrainingStep step = traced_by(trace, std::move(inputs), scalars);
  step.chooses_remat = options.remat == Remat::automatic;
  return step;
}

TrainingStep with_remat(const TrainingStep& step, std::vector<int> layers) {
  TrainingStep result = step;
  result.chooses_remat = false;
  result.trace = [=](TraceOptions tracing) {
    tracing.remat = layers;
    return step.trace(tracing);
  };
  if (step.with_batch)
    result.with_batch = [=](std::int64_t rows) {
      return with_remat(step.with_batch(rows), layers);
    };
  return result;
}

TrainingStep evaluation_step(std::vector<BatchInput> inputs,
                             std::function<LossAndMetrics(const Batch&)> model,
                             EvaluationOptions options) {
  auto trace = [=](const std::vector<BatchInput>& rows, const TraceOptions& tracing) {
    return trace_evaluation(rows, model, options, tracing);
  };
  return traced_by(trace, std::move(inputs));
}

TrainingStep prediction_step(std::vector<BatchInput> inputs,
                             std::function<Predictions(const Batch&)> model,
                             EvaluationOptions options) {
  auto trace = [=](const std::vector<BatchInput>& rows, const TraceOptions& tracing) {
    return trace_prediction(rows, model, options, tracing);
  };
  return traced_by(trace, std::move(inputs));
}

TrainingStep custom_step(std::vector<BatchInput> inputs,
                         std::function<void(Builder&, const Batch&)> build,
                         std::function<std::map<std::string, double>(std::int64_t step)> scalars) {
  auto trace = [=](const std::vector<BatchInput>& rows, const TraceOptions& tracing) {
    Recorder builder(tracing.num_micro_batches, tracing.layer_per_node);
    builder.set_remat(tracing.remat);
    build(builder, make_batch(builder, rows));
    Graph graph = with_elementwise_again(builder.finish(), tracing.layer_per_node);
    if (scalars) check_scalars(graph, rows, scalars(1));
    return graph;
  };
  return traced_by(trace, std::move(inputs), scalars ? scalars : no_scalars);
}

}  // namespace alpa
