#pragma once
/// A training step, written as for one device: batch inputs, a loss, an optimizer. Traced once
/// per number of micro-batches.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alpa/ir/builder.h"
#include "alpa/tensor/array.h"
#include "alpa/train/optimizer.h"
#pragma GCC visibility push(default)

namespace alpa {

/// A named input of a step, given with every batch. Dimension 0 is the batch, unless `batched` is
/// false: every micro-batch then sees the whole tensor, e.g. a mask, a table, or a number:
/// `{"temperature", {f32, {}}, false}`, given as `{"temperature", 0.5}`.
struct BatchInput {
  std::string name;     ///< of the input
  TensorType type;      ///< of the whole batch
  bool batched = true;  ///< dimension 0 is the batch
};

/// The inputs of a step whose batches are like `example`: names and types of its arrays. Dimension
/// 0 is the batch, except of numbers, which are f32, and of the inputs named in `whole`. Throws
/// Error if the example lacks one of these.
std::vector<BatchInput> inputs_of(const BatchData& example,
                                  const std::vector<std::string>& whole = {});

/// The batch inputs while tracing.
class Batch {
 public:
  explicit Batch(std::map<std::string, Value> values) : values_(std::move(values)) {}
  /// Throws Error naming the known inputs.
  Value operator[](const std::string& name) const;
  /// The graph being recorded, for parameters and constants of a model without layers.
  Builder& builder() const;

 private:
  std::map<std::string, Value> values_;
};

/// The metric that reports `LossAndMetrics::weight`.
inline constexpr const char* kLossWeight = "loss_weight";

/// Result of a model: the loss to minimise, and further scalars to report.
struct LossAndMetrics {
  Value loss;                            ///< a scalar
  std::map<std::string, Value> metrics;  ///< scalars, by name
  /// A scalar of at least 0, e.g. the share of labels that count. The loss of micro-batches, and of
  /// several batches, is Σ weight·loss / Σ weight, and so are the metrics. It has no gradient.
  /// Empty: all weigh the same.
  Value weight = {};
  LossAndMetrics(Value loss) : loss(loss) {}  // NOLINT: a plain loss is the usual case
  LossAndMetrics(Value loss, std::map<std::string, Value> metrics, Value weight = {})
      : loss(loss), metrics(std::move(metrics)), weight(weight) {}
};

/// How a step is traced.
struct TraceOptions {
  int num_micro_batches = 1;    ///< of a step
  bool layer_per_node = false;  ///< as for `Builder`
  /// Rematerialised layers, by number. None: those that the step asks for; with
  /// `Remat::automatic`, no layer.
  std::optional<std::vector<int>> remat = {};
  TraceOptions(int micro_batches, bool per_node = false,  // NOLINT: a number is the usual case
               std::optional<std::vector<int>> layers = {})
      : num_micro_batches(micro_batches), layer_per_node(per_node), remat(std::move(layers)) {}
};

/// A step that can be traced for any number of micro-batches.
struct TrainingStep {
  std::vector<BatchInput> inputs;  ///< types of the whole batch
  /// throws Error if the micro-batches do not divide the batch
  std::function<Graph(const TraceOptions&)> trace;
  /// Values of the scalar inputs at a step (1 for the first): learning rate, step counter.
  std::function<std::map<std::string, double>(std::int64_t step)> scalars;
  /// The same step for a batch of another number of rows; null: it has none.
  std::function<TrainingStep(std::int64_t rows)> with_batch = {};
  bool chooses_remat = false;  ///< the planner chooses what is rematerialised
  /// Layers read copies of parameters in half precision, which are kept; false: every micro-batch
  /// converts them, as the planner chooses where memory is short.
  bool keeps_copies = true;
  /// Behind the first step of `parallelize`: the same step on batches of another shape, such as of
  /// shorter rows. It runs as the first one does: both have one count, and so the same learning
  /// rates, random draws and `TrainState::step`.
  bool counts_with_first = false;
};

/// What of a model is computed again in the backward pass instead of being kept (rematerialisation,
/// activation checkpointing). Layers are those marked by `nn::remat`; if there is none, for
/// `automatic` and `all` those of `LayerScope` and `mark_pipeline_boundary`.
enum class Remat : std::uint8_t {
  marked,  ///< the layers marked by `nn::remat`
  none,    ///< none; marks have no effect
  all,     ///< every layer
  /// The planner chooses. No layer, if a plan without rematerialisation fits the memory budget;
  /// otherwise few layers, those first that free most bytes per second. Of up to three layers of a
  /// small step with AutoStages, those with which it is fastest.
  automatic,
};

/// Element types of a step. Mixed precision (Micikevicius et al. 2018): parameters and optimizer
/// state are f32; layers get the batch's f32 tensors, and their parameters, in half precision. The
/// losses of `nn` and the sums of gradients over micro-batches are f32. Parameters that a layer
/// asks for as f32 stay f32.
enum class Precision : std::uint8_t { as_written, bf16_mixed, f16_mixed };
/// Mixed precision, for short.
inline constexpr Precision bf16_mixed = Precision::bf16_mixed, f16_mixed = Precision::f16_mixed;

/// The loss is multiplied by a scale before its gradients are taken, and these are divided by it,
/// so that small gradients are not lost in f16.
struct LossScale {
  double initial = 65536;  ///< scale of the first step
  /// Steps with a gradient that is not finite change nothing but the scale, which is halved, down
  /// to 1; after `growth_interval` other steps it is doubled, up to 2^24. Metric "loss_scale".
  bool dynamic = true;
  std::int64_t growth_interval = 2000;  ///< steps until the scale is doubled
};

/// Options of a training step.
struct StepOptions {
  /// scales gradients so that their joint norm is at most this; 0: off
  double clip_global_norm = 0;
  /// Patterns of frozen parameters, `*` matches any text, dots included: {"encoder.*", "*.bias"}.
  /// Frozen parameters have neither gradient nor optimizer state; a frozen BatchNorm keeps its
  /// statistics.
  std::vector<std::string> frozen = {};
  /// Adapters, which alone are trained; all else is as if frozen. Evaluations and text read them if
  /// they are asked for the same (`EvaluationOptions::lora`).
  std::optional<Lora> lora = {};
  /// Dense layers with quantised kernels. Steps that share the state need the same.
  std::vector<Quantized> quantized = {};
  /// Optimizers for some of the parameters, instead of the step's. The first group
  /// that matches a name is used.
  std::vector<OptimizerGroup> groups = {};
  Precision precision = Precision::as_written;  ///< element types
  /// The default is a dynamic scale with f16_mixed, and none otherwise.
  std::optional<LossScale> loss_scale = {};
  /// Keeps the exponential moving average of every trained parameter as state "<parameter>.ema":
  /// average ← ema·average + (1 - ema)·parameter after each step; the first step sets it. 0: off
  double ema = 0;
  Remat remat = Remat::marked;  ///< what is computed again
};

/// Options of a step without an optimizer.
struct EvaluationOptions {
  Precision precision = Precision::as_written;  ///< element types
  /// Reads the averages that `StepOptions::ema` keeps, instead of the trained parameters.
  bool ema = false;
  std::vector<std::string> frozen = {};   ///< as in the training step; these have no averages
  std::optional<Lora> lora = {};          ///< as in the training step
  std::vector<Quantized> quantized = {};  ///< as in the training step
};

/// Gradients of the loss averaged over micro-batches, then one optimizer update of every parameter
/// that is not frozen. A parameter without a gradient, e.g. behind stop_gradient, is frozen.
/// Reports metric "loss" and those the model returns. `trace` throws Error if nothing is left to
/// train, or if a pattern matches nothing.
TrainingStep training_step(std::vector<BatchInput> inputs,
                           std::function<LossAndMetrics(const Batch&)> model, Optimizer optimizer,
                           StepOptions options = {});

/// `step` with these layers, by number, computed again in its backward pass and no others.
TrainingStep with_remat(const TrainingStep& step, std::vector<int> layers);

/// A step without an optimizer: computes metrics; parameters do not change.
TrainingStep evaluation_step(std::vector<BatchInput> inputs,
                             std::function<LossAndMetrics(const Batch&)> model,
                             EvaluationOptions options = {});

/// Tensors that a model predicts, by name; a single one is called "prediction".
struct Predictions {
  std::map<std::string, Value> values;                         ///< tensors by name
  Predictions(Value value) : values{{"prediction", value}} {}  // NOLINT: the usual case
  explicit Predictions(std::map<std::string, Value> values) : values(std::move(values)) {}
};

/// A step without loss and optimizer: returns tensors (`StepResult::outputs`), one row or more per
/// row of the batch. Layers such as dropout do nothing in it.
TrainingStep prediction_step(std::vector<BatchInput> inputs,
                             std::function<Predictions(const Batch&)> model,
                             EvaluationOptions options = {});

/// A step written directly on the graph. `build` gets the builder and the micro-batch's inputs; it
/// makes parameters, updates and metrics itself. Work done once per step, on means from the
/// functions below, belongs in `Region::apply`. `scalars` gives values of the scalar inputs at a
/// step, 1 for the first. Those that this step does not read are left out, so several steps may
/// share one function. Tracing throws Error if it lacks one that the step reads and that is not
/// among the inputs.
TrainingStep custom_step(
    std::vector<BatchInput> inputs, std::function<void(Builder&, const Batch&)> build,
    std::function<std::map<std::string, double>(std::int64_t step)> scalars = {});

/// In a custom step: the mean of a floating value over the micro-batches, readable once per
/// step. `name` names the accumulator; half-precision values are summed in f32. Throws
/// Error if the name is taken.
Value mean_over_micro_batches(const std::string& name, Value value);

/// In a custom step: gradients of the mean of `loss` over the micro-batches, readable once per
/// step; zeros for parameters that the loss does not depend on. Half-precision gradients are
/// summed in f32. `name` distinguishes the gradients of several losses. Throws Error as `gradient`
/// does, or if the name is taken.
Values mean_gradients(Value loss, const Values& parameters, const std::string& name = "gradient");

/// In a custom step: returns `value` to the caller of `Executable::run`, as
/// `StepResult::outputs[name]`. From micro-batches come the parts of one array, joined along
/// dimension 0 in the order of the batch. What is computed once per step (Region::apply) is
/// returned as it is. Throws Error for a single number (a metric), for state, or if the name is
/// taken.
void output(const std::string& name, Value value);

/// Gradients scaled so that their joint Euclidean norm is at most `limit` (Pascanu et al. 2013).
Values clip_global_norm(const Values& gradients, double limit);

}  // namespace alpa
#pragma GCC visibility pop
