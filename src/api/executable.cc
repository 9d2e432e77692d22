// src/api/executable.cc — compiled steps on devices and their state: init, run, read and write
#include "alpa/executable.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "alpa/base/text.h"
#include "measured_trace.h"
#include "src/base/file.h"
#include "src/ir/input.h"
#include "src/runtime/device_state.h"
#include "src/runtime/executor.h"
#include "src/spmd/program.h"

namespace alpa {
namespace {

/// `"accuracy", "loss"`.
template <class T>
std::string names_of(const std::map<std::string, T>& values) {
  std::vector<std::string> names;
  for (const auto& entry : values) names.push_back(entry.first);
  return quoted_names(names);
}

/// Throws Error naming the known names.
const Input& known_state(const Graph& graph, const std::string& name) {
  const Input* input = find_state(graph, name);
  if (input == nullptr)
    fail("no parameter or optimizer state is called \"{}\"; known are {}", name,
         quoted_names(input_names(graph, InputKind::state)));
  return *input;
}

/// Means of the metrics of several batches, which count as their rows, and their weights if the
/// model gives some.
class MetricMeans {
 public:
  void add(const std::map<std::string, double>& metrics, double rows) {
    const auto weight = metrics.find(kLossWeight);
    rows_ += rows;
    weights_ += weight == metrics.end() ? rows : rows * weight->second;
    for (const auto& [name, value] : metrics)
      sums_[name] +=
          rows * value * (weight == metrics.end() || name == kLossWeight ? 1 : weight->second);
  }
  std::map<std::string, double> values() const {
    std::map<std::string, double> means = sums_;
    for (auto& [name, sum] : means) sum /= name == kLossWeight || weights_ == 0 ? rows_ : weights_;
    return means;
  }

 private:
  std::map<std::string, double> sums_;
  double rows_ = 0, weights_ = 0;
};

}  // namespace

const std::map<std::string, double>& Metrics::values() const& {
  return step_ ? step_->metrics() : values_;
}

double Metrics::operator[](const std::string& name) const {
  const std::map<std::string, double>& values = this->values();
  const auto found = values.find(name);
  if (found == values.end())
    fail("the step reports no metric \"{}\"; its metrics are {}", name, names_of(values));
  return found->second;
}

const std::map<std::string, Array>& Outputs::values() const {
  require(step_ != nullptr,
          "the means over several batches hold no tensors; run the batches one by one");
  return step_->outputs();
}

Array Outputs::operator[](const std::string& name) const {
  const std::map<std::string, Array>& outputs = values();
  require(!outputs.empty(),
          "the step returns no tensors; use prediction_step, or output in a custom step");
  const auto found = outputs.find(name);
  if (found == outputs.end())
    fail("the step returns no tensor \"{}\"; its outputs are {}", name, names_of(outputs));
  return found->second;
}

std::string to_string(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics.values())
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  return text.empty() ? "no metrics" : text;
}

DistributedArray::DistributedArray(std::string name, TensorType type, ShardingSpec sharding,
                                   std::shared_ptr<const runtime::Executor> executor,
                                   std::shared_ptr<runtime::DeviceState> state)
    : name_(std::move(name)),
      type_(std::move(type)),
      sharding_(sharding),
      executor_(std::move(executor)),
      state_(std::move(state)) {}

void DistributedArray::operator=(const Array& array) { executor_->write(*state_, name_, array); }

Array DistributedArray::to_host() const { return executor_->read(*state_, name_); }

const DeviceMesh& DistributedArray::mesh() const {
  const spmd::SpmdProgram& program = executor_->program();
  return program.mesh_of(find_state(program.graph, name_)->value);
}

std::string to_string(const DistributedArray& array) {
  return fmt::format("{} {}: {}", array.name(), array.type(),
                     describe(array.sharding(), array.type().rank(), array.mesh()));
}

const runtime::Executor& TrainState::executor() const {
  require(executor_ != nullptr, "this TrainState is empty; make one with `executable.init(seed)`");
  return *executor_;
}

std::vector<std::string> TrainState::names() const {
  return input_names(executor().program().graph, InputKind::state);
}

DistributedArray TrainState::array_of(const Input& input) const {
  const spmd::SpmdProgram& program = executor().program();
  return {input.name, program.graph.type(input.value), program.specs[input.value], executor_,
          state_};
}

DistributedArray TrainState::operator[](const std::string& name) {
  return array_of(known_state(executor().program().graph, name));
}

const DistributedArray TrainState::operator[](const std::string& name) const {
  return array_of(known_state(executor().program().graph, name));
}

std::vector<DistributedArray> TrainState::parameters() const {
  std::vector<DistributedArray> parameters;
  for (const Input& input : executor().program().graph.inputs)
    if (role_of(input) == StateRole::parameter) parameters.push_back(array_of(input));
  return parameters;
}

std::vector<DistributedArray> TrainState::weights() const {
  std::vector<DistributedArray> weights;
  for (const Input& input : executor().program().graph.inputs)
    if (role_of(input) == StateRole::parameter || role_of(input) == StateRole::layer_state)
      weights.push_back(array_of(input));
  return weights;
}

int TrainState::copy_from(const TrainState& other) {
  const Graph& from = other.executor().program().graph;
  const Graph& to = executor().program().graph;
  int copied = 0;
  for (const Input& input : to.inputs) {
    const Input* source = find_state(from, input.name);
    if (input.kind != InputKind::state || source == nullptr) continue;
    if (from.type(source->value) != to.type(input.value)) continue;
    (*this)[input.name] = other[input.name].to_host();
    ++copied;
  }
  return copied;
}

std::int64_t TrainState::step() const { return executor().steps(*state_); }

void TrainState::check_replicas() const { executor().check_replicas(*state_); }

bool TrainState::belongs_to(const Executable& executable) const {
  return executor().shares_states_with(executable.executor());
}

std::vector<std::string> parameter_names(const Graph& graph) {
  std::vector<std::string> parameters;
  for (const Input& input : graph.inputs)
    if (role_of(input) == StateRole::parameter) parameters.push_back(input.name);
  return parameters;
}

struct Executable::Impl {
  CompiledStep planned;
  Cluster cluster;
  TrainingStep step;
  ExecutorOptions options;
  std::shared_ptr<runtime::Executor> executor;
  std::shared_ptr<runtime::Executor> home;  ///< makes the states
  decltype(ExecutableRelations::shorter) shorter;
  decltype(ExecutableRelations::later) later;
  std::mutex mutex = {};  ///< guards the rest
  std::optional<Executable> short_version = {};
  std::int64_t short_bytes = 0;  ///< the most that a short version has needed

  /// An input with a row per example: every step has one.
  const BatchInput& batched() const {
    return *std::find_if(step.inputs.begin(), step.inputs.end(),
                         [](const BatchInput& input) { return input.batched; });
  }

  /// The scalars of a step that it reads.
  std::map<std::string, double> scalars(std::int64_t number) const {
    std::map<std::string, double> values = step.scalars(number);
    std::erase_if(values, [&](const auto& value) {
      return !find_input(planned.graph, InputKind::scalar, value.first);
    });
    return values;
  }

  /// The number of examples in a batch that ran.
  std::int64_t rows_of(const BatchData& batch) const { return batch.at(batched().name).shape()[0]; }

  /// The number of rows if `batch` matches the inputs but for having fewer; else nothing.
  std::optional<std::int64_t> short_rows(const BatchData& batch) const {
    std::optional<std::int64_t> rows;
    for (const BatchInput& input : step.inputs) {
      if (!input.batched) continue;
      const auto found = batch.find(input.name);
      if (found == batch.end() || found->second.shape().empty()) return {};
      TensorType type = input.type;
      type.shape[0] = rows.value_or(found->second.shape()[0]);
      if (found->second.type() != type || type.shape[0] >= input.type.shape[0]) return {};
      rows = type.shape[0];
    }
    return rows > 0 ? rows : std::nullopt;
  }

  /// `whole`, whose Impl this is, for fewer rows.
  Executable for_rows(std::int64_t rows, const Executable& whole) {
    const std::lock_guard lock(mutex);
    if (!short_version || short_version->batch_rows() != rows) {
      const TrainingStep fewer = step.with_batch(rows);
      short_version.emplace(shorter(fewer, rows, whole), fewer, cluster, options,
                            ExecutableRelations{.with = &whole, .same_step = true});
      short_bytes = std::max(short_bytes, short_version->memory_bytes());
    }
    return *short_version;
  }

  std::int64_t memory_bytes() {
    const std::lock_guard lock(mutex);
    return std::max(executor->memory_bytes(), short_bytes);
  }
};

Executable::Executable(CompiledStep planned, const TrainingStep& step, const Cluster& cluster,
                       ExecutorOptions options, ExecutableRelations relations) {
  const Executable* with = relations.with;
  const runtime::StateSharing sharing{with ? with->impl_->executor.get() : nullptr,
                                      relations.same_step};
  auto executor =
      std::make_shared<runtime::Executor>(*planned.program, options, cluster.backend,
                                          planned.lowered->schedule, *planned.lowered, sharing);
  auto home = with ? with->impl_->home : executor;
  impl_ = std::shared_ptr<Impl>(new Impl{std::move(planned), cluster, step, options,
                                         std::move(executor), std::move(home),
                                         std::move(relations.shorter), std::move(relations.later)});
}

Executable Executable::follower(const TrainingStep& step) const {
  require(impl_->later != nullptr,
          "no step can follow this executable; make it with parallelize or load_plan");
  return {impl_->later(step, *this), step, impl_->cluster, impl_->options,
          ExecutableRelations{.with = this, .later = impl_->later}};
}

TrainState Executable::init(std::uint64_t seed) const {
  TrainState state;
  state.executor_ = impl_->home;
  state.state_ = impl_->home->make_state(seed);
  state.planned_ = std::shared_ptr<const CompiledStep>(impl_, &impl_->planned);
  return state;
}

StepResult Executable::run(TrainState& state, const BatchData& batch) const {
  require(state.belongs_to(*this),
          "this state belongs to another executable; make one with init() of this one "
          "and fill it with copy_from()");
  if (const auto rows = impl_->short_rows(batch); rows && impl_->shorter && impl_->step.with_batch)
    return impl_->for_rows(*rows, *this).run(state, batch);
  const auto step = std::make_shared<const runtime::RunningStep>(impl_->executor->start(
      *state.state_, batch, [&](std::int64_t number) { return impl_->scalars(number); }));
  return {Metrics(step), Outputs(step)};
}

StepResult Executable::run(TrainState& state, BatchRange batches) const {
  MetricMeans means;
  // A step's metrics are read once the next has started: on CUDA no device waits for the host.
  std::optional<std::pair<Metrics, double>> under_way;
  for (const auto& batch : batches) {
    std::pair next(run(state, batch).metrics, static_cast<double>(impl_->rows_of(batch)));
    if (under_way) means.add(under_way->first.values(), under_way->second);
    under_way = std::move(next);
  }
  if (under_way) means.add(under_way->first.values(), under_way->second);
  return {Metrics(means.values())};
}

std::int64_t Executable::memory_bytes() const { return impl_->memory_bytes(); }

std::int64_t Executable::measured_bytes(const TrainState& state) const {
  return impl_->executor->measured_bytes(*state.state_);
}

std::int64_t Executable::exchange_bytes() const { return impl_->executor->exchange_bytes(); }

std::map<std::string, Traffic> Executable::traffic() const { return impl_->planned.traffic(); }

std::map<std::string, Traffic> Executable::measured_traffic() const {
  return impl_->executor->measured_traffic();
}

const Graph& Executable::graph() const { return impl_->planned.graph; }
const Plan& Executable::plan() const { return impl_->planned.plan; }
const spmd::SpmdProgram& Executable::program() const { return *impl_->planned.program; }
const CompiledStep& Executable::planned() const { return impl_->planned; }
const runtime::Executor& Executable::executor() const { return *impl_->executor; }
std::int64_t Executable::batch_rows() const { return impl_->batched().type.shape[0]; }

std::string Executable::explain(Detail detail) const {
  return alpa::explain(impl_->planned, impl_->cluster, detail);
}

void Executable::report(const std::string& path) const {
  const auto measured = trace_if_recorded(impl_->planned.plan, *impl_->executor);
  write_file(path, alpa::report(impl_->planned, impl_->cluster,
                                measured ? chrome_trace(*measured) : std::string()));
}

std::string Executable::trace() const {
  return chrome_trace(trace_of(impl_->planned.plan, *impl_->executor));
}

std::string Executable::trace_summary() const {
  return to_string(trace_of(impl_->planned.plan, *impl_->executor));
}

ShardingSpec Executable::sharding_of(const std::string& name) const {
  return program().specs[known_state(program().graph, name).value];
}

void Executable::save_plan(const std::string& path) const {
  write_file(path, to_json(impl_->planned));
}

}  // namespace alpa
