#pragma once
/// A compiled training step, and its data: state, results, and arrays distributed over devices.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alpa/compile/compiled_step.h"
#include "alpa/lower/executor_options.h"
#include "alpa/mesh/cluster.h"
#include "alpa/train/batches.h"
#include "alpa/train/training_step.h"

namespace alpa::checkpoint {
class StateContent;
}  // namespace alpa::checkpoint

namespace alpa::runtime {
class DeviceState;
class Executor;
class RunningStep;
}  // namespace alpa::runtime
#pragma GCC visibility push(default)

namespace alpa {

/// Scalars that a step reports, by name: the loss and those its model returns. On CUDA the step may
/// still be running: the first access waits for it, and throws the Error if it failed.
class Metrics {
 public:
  explicit Metrics(std::shared_ptr<const runtime::RunningStep> step) : step_(std::move(step)) {}
  explicit Metrics(std::map<std::string, double> values) : values_(std::move(values)) {}
  /// Throws Error naming the known metrics.
  double operator[](const std::string& name) const;
  const std::map<std::string, double>& values() const&;  ///< every metric by name
  std::map<std::string, double> values() && { return std::as_const(*this).values(); }

 private:
  std::shared_ptr<const runtime::RunningStep> step_;
  std::map<std::string, double> values_;  ///< without a step
};

/// Tensors that a step returns, by name: that of a `prediction_step` is "prediction" unless it is
/// named, those of a custom step are named by `output`.
class Outputs {
 public:
  Outputs() = default;
  explicit Outputs(std::shared_ptr<const runtime::RunningStep> step) : step_(std::move(step)) {}
  /// The tensor of the whole batch, in its order. Throws Error naming the known outputs.
  Array operator[](const std::string& name) const;
  Array at(const std::string& name) const { return (*this)[name]; }                 ///< the same
  bool contains(const std::string& name) const { return values().contains(name); }  ///< returned
  /// Every tensor by name. Throws Error of the means over several batches, which hold none.
  const std::map<std::string, Array>& values() const;
  /// `for (const auto& [name, array] : result.outputs)`; throws as `values`.
  auto begin() const { return values().begin(); }
  auto end() const { return values().end(); }  ///< behind the last

 private:
  std::shared_ptr<const runtime::RunningStep> step_;
};

/// What a run of a step gives.
struct StepResult {
  Metrics metrics;       ///< scalars; with micro-batches, means over the batch
  Outputs outputs = {};  ///< tensors; none of several batches
  /// Mean loss over the batch: `metrics["loss"]`.
  double loss() const { return metrics["loss"]; }
};

/// "accuracy 0.875, loss 0.4012": every metric by name.
std::string to_string(const Metrics& metrics);

/// A reference to a tensor of a state, distributed over devices. Name, type and sharding are known
/// without access to the devices. It keeps the state alive and always shows its current content.
/// Reads and writes go to the state: `Array w = state["w"]; state["w"] = w;`.
class DistributedArray {
 public:
  DistributedArray(const DistributedArray&) = default;
  /// Writes the whole tensor. Throws Error naming both types if they differ.
  // NOLINT: no chains
  void operator=(const Array& array);
  /// `state["a"] = state["b"]` writes the content of b.
  void operator=(const DistributedArray& other) && { *this = other.to_host(); }  // NOLINT
  /// Deleted because it is ambiguous: it could rebind the variable or write the tensor. To
  /// write, use `a = b.to_host()`.
  void operator=(const DistributedArray& other) & = delete;

  const std::string& name() const { return name_; }           ///< of the state
  const TensorType& type() const { return type_; }            ///< of the whole tensor
  const ShardingSpec& sharding() const { return sharding_; }  ///< its layout on `mesh`
  const DeviceMesh& mesh() const;                             ///< the devices that hold it
  /// The whole tensor, gathered.
  Array to_host() const;
  operator Array() const { return to_host(); }  // NOLINT: `Array w = state["w"]`

 private:
  friend class TrainState;
  DistributedArray(std::string name, TensorType type, ShardingSpec sharding,
                   std::shared_ptr<const runtime::Executor> executor,
                   std::shared_ptr<runtime::DeviceState> state);
  std::string name_;
  TensorType type_;
  ShardingSpec sharding_;
  std::shared_ptr<const runtime::Executor> executor_;
  std::shared_ptr<runtime::DeviceState> state_;
};

/// Name, type and layout: "head.kernel f32[784, 256]: rows split over x (4 devices)".
std::string to_string(const DistributedArray& array);

class Executable;

/// Parameters and optimizer state, readable and writable by name ("head.kernel",
/// "head.kernel.adam_m"). Copies share their content. Made by `Executable::init`.
class TrainState {
 public:
  TrainState() = default;
  /// Names of all tensors, in the order in which the model made them.
  std::vector<std::string> names() const;
  /// The tensor, for reading or assignment. Throws Error naming the known names.
  DistributedArray operator[](const std::string& name);
  // NOLINT: not to be assigned to
  const DistributedArray operator[](const std::string& name) const;
  /// The parameters, without optimizer state, in the order in which the model made them.
  std::vector<DistributedArray> parameters() const;
  /// The parameters and what layers keep beside them, such as running means: all that a model
  /// computes with, without optimizer state.
  std::vector<DistributedArray> weights() const;
  /// Copies every tensor that `other` has under the same name and type, e.g. trained parameters
  /// into the state of an evaluation step. Returns the number of tensors copied.
  int copy_from(const TrainState& other);
  /// Runs of the first step that shares the state, with those of steps that count with it.
  std::int64_t step() const;
  /// Throws Error unless devices that hold the same part of a tensor hold the same bits, in all
  /// processes: names the first that differs. Reads all of the state once.
  void check_replicas() const;
  /// Whether `executable` can run on it: made it, or shares states with the one that did.
  bool belongs_to(const Executable& executable) const;

 private:
  friend class Executable;
  friend class checkpoint::StateContent;
  const runtime::Executor& executor() const;  ///< runs the device programs
  DistributedArray array_of(const Input& input) const;
  std::shared_ptr<const runtime::Executor> executor_;
  std::shared_ptr<runtime::DeviceState> state_;
  std::shared_ptr<const CompiledStep> planned_;  ///< of the executable that made it
};

/// Names of the parameters among a graph's state inputs, in order, without
/// optimizer state ("head.kernel.adam_m").
std::vector<std::string> parameter_names(const Graph& graph);

/// The place of an executable among those that share states; set by `parallelize`.
struct ExecutableRelations {
  const Executable* with = nullptr;  ///< shares its states; null: makes states of its own
  bool same_step = false;            ///< the same step as that one, for other batches
  /// Compiles the same step for a batch of fewer rows; null: it runs on whole batches only.
  std::function<CompiledStep(const TrainingStep& step, std::int64_t rows, const Executable& whole)>
      shorter = {};
  /// Compiles another step along the plan of one; null: none can follow.
  std::function<CompiledStep(const TrainingStep& step, const Executable& leader)> later = {};
};

/// A compiled training step. Several may exist and run at once; each runs one step at a time.
/// Copies share the devices.
class Executable {
 public:
  /// Loads a program onto devices of this process. `step` is the step that was planned. Throws
  /// Error if the cluster's backend is not available.
  Executable(CompiledStep planned, const TrainingStep& step, const Cluster& cluster,
             ExecutorOptions options, ExecutableRelations relations = {});

  /// Parameters and optimizer state as initialised from `seed`: the same numbers under every plan,
  /// and one state for all steps that share it.
  TrainState init(std::uint64_t seed) const;
  /// Another step on the states of this one, which follows its plan as those that `parallelize` is
  /// given together, in one micro-batch. States that exist already get larger arenas if the step
  /// needs them. Throws Error as `parallelize`.
  Executable follower(const TrainingStep& step) const;
  /// Runs one step on a whole batch, or on one of fewer rows, such as the last of a data set; its
  /// metrics are means over the rows given. The first batch of a new number of rows compiles a
  /// program along the plan, which is kept until the number changes. `batch` may be reused once
  /// this returns. Throws Error if the batch does not match the step's inputs, or if the state is
  /// of another executable. Also throws if a device fails; the state is then unusable.
  StepResult run(TrainState& state, const BatchData& batch) const;
  /// Runs a step on each of `batches`. The metrics are means over all examples; no outputs.
  StepResult run(TrainState& state, BatchRange batches) const;

  std::int64_t memory_bytes() const;  ///< planned peak per device, exact; short batches included
  /// The most bytes of a device that any step on `state` has taken, those of other executables too:
  /// ask before a larger evaluation step.
  std::int64_t measured_bytes(const TrainState& state) const;
  /// Bytes outside of the devices' memory for messages with other processes, of the process that
  /// needs the most; allocated when the program is loaded. 0 in one process.
  std::int64_t exchange_bytes() const;
  std::map<std::string, Traffic> traffic() const;           ///< per step and device, planned
  std::map<std::string, Traffic> measured_traffic() const;  ///< of the last step
  const Graph& graph() const;                               ///< the traced step
  const Plan& plan() const;                   ///< stages with their shardings, and its cost
  const spmd::SpmdProgram& program() const;   ///< partitioned and fused, of all devices
  const CompiledStep& planned() const;        ///< what was compiled, with its statistics
  const runtime::Executor& executor() const;  ///< runs the device programs
  std::int64_t batch_rows() const;            ///< of a whole batch
  /// The plan explained in words.
  std::string explain(Detail detail = Detail::summary) const;
  /// Writes a report of the plan as one HTML page (alpa::report), with the runs of the last step if
  /// `ExecutorOptions::record_times` is set and a step has run. Throws Error if writing fails.
  void report(const std::string& path) const;
  /// The last step as a Chrome trace (JSON, for chrome://tracing or Perfetto). Per device lanes of
  /// what is predicted, of what ran by stage and micro-batch, and of its instructions: compute,
  /// communication, transfer, waiting, and what runs beside them. Throws Error unless
  /// `ExecutorOptions::record_times` is set and a step has run.
  std::string trace() const;
  /// That trace in lines: seconds, measured and predicted; the share in which devices wait; the
  /// slowest stage. Throws Error as `trace`.
  std::string trace_summary() const;
  /// The layout of state `name` on the mesh. Throws Error naming the known names.
  ShardingSpec sharding_of(const std::string& name) const;
  /// Writes the plan as JSON, for `load_plan`. Throws Error if writing fails.
  void save_plan(const std::string& path) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace alpa

template <>
struct fmt::formatter<alpa::Metrics> : alpa::TextFormatter<alpa::Metrics> {};
template <>
struct fmt::formatter<alpa::DistributedArray> : alpa::TextFormatter<alpa::DistributedArray> {};
#pragma GCC visibility pop
