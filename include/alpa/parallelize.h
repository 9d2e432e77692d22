#pragma once
/// The driver: from a training step written for one device to an executable on a cluster.
/// `src/parallelize.cc` is the reader's map.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "alpa/intra_op/auto_shard.h"
#include "alpa/mesh/cluster.h"
#include "alpa/runtime/executor.h"
#include "alpa/train/training_step.h"

namespace alpa {

enum class MethodKind : std::uint8_t { serial, data, zero2, zero3, shard };

/// A parallel method and its options, e.g. `ShardParallel{.num_micro_batches = 4}`. All methods have the
/// same options.
template <MethodKind method>
struct ParallelMethod {
  int num_micro_batches = 1;  ///< gradients are accumulated over as many parts of the batch; must divide it
  std::vector<int> mesh_shape =
      {};  ///< logical mesh, e.g. {2, 4}; empty: every shape is tried and the cheapest taken
  std::optional<int> batch_mesh_axis = {};  ///< forces the batch onto this axis of the mesh
  bool allow_all_gather = true;
  bool allow_all_to_all = true;
  std::optional<std::int64_t> memory_budget_bytes =
      {};                      ///< per device; default: what the cluster says a device has
  double solver_seconds = 60;  ///< then the best plan found so far is taken; its proven gap is reported
  std::string dump_dir = {};   ///< writes every pass's result there: 01_graph.txt, …
  ExecutorOptions executor = {};

  static constexpr MethodKind kind = method;
};

/// One device; the reference for all others.
using Serial = ParallelMethod<MethodKind::serial>;
/// Batch split, parameters and optimizer state on every device.
using DataParallel = ParallelMethod<MethodKind::data>;
/// Batch split, optimizer state split (ZeRO stage 2).
using Zero2Parallel = ParallelMethod<MethodKind::zero2>;
/// Batch split, parameters and optimizer state split, parameters gathered at use (ZeRO stage 3).
using Zero3Parallel = ParallelMethod<MethodKind::zero3>;
/// The best plan the planner finds.
using ShardParallel = ParallelMethod<MethodKind::shard>;

using Method = std::variant<Serial, DataParallel, Zero2Parallel, Zero3Parallel, ShardParallel>;

/// "serial", "data", "zero2", "zero3", "shard", and the method of that name with default options. Throws
/// Error naming the methods.
std::string_view name_of(MethodKind kind);
Method parse_method(std::string_view name);

/// What a step reports.
class Metrics {
 public:
  explicit Metrics(std::map<std::string, double> values) : values_(std::move(values)) {}
  /// Mean loss over the batch.
  double loss() const { return (*this)["loss"]; }
  /// Throws Error naming the known metrics.
  double operator[](const std::string& name) const;
  const std::map<std::string, double>& values() const { return values_; }

 private:
  std::map<std::string, double> values_;
};

class Executable;

/// A tensor that lives split over devices. Type and sharding are known without touching the devices.
class DistributedArray {
 public:
  const TensorType& type() const { return type_; }
  const ShardingSpec& sharding() const { return sharding_; }
  /// The whole tensor, gathered.
  Array to_host() const;

 private:
  friend class TrainState;
  std::string name_;
  TensorType type_;
  ShardingSpec sharding_;
  std::shared_ptr<const Executor> executor_;
  std::shared_ptr<const DeviceState> state_;
};

/// Parameters and optimizer state, readable and writable by name ("dense0.kernel", "dense0.kernel.adam_m").
class TrainState {
 public:
  std::vector<std::string> names() const;
  /// Throws Error naming the known names.
  DistributedArray operator[](const std::string& name) const;
  void set(const std::string& name, const Array& array);
  std::int64_t step() const { return step_; }  ///< steps taken

 private:
  friend class Executable;
  std::shared_ptr<const Executor> executor_;
  std::shared_ptr<DeviceState> state_;
  std::int64_t step_ = 0;
};

/// A compiled training step. Several may live and run at once; one runs one step at a time.
class Executable {
 public:
  TrainState init(std::uint64_t seed) const;
  /// One step on a whole batch. Throws Error on a batch that does not fit the step's inputs.
  Metrics run(TrainState& state, const std::map<std::string, Array>& batch);

  std::int64_t memory_bytes() const;  ///< planned peak per device, exact
  std::int64_t measured_bytes(const TrainState& state) const;
  std::map<std::string, Traffic> communication() const;           ///< per step and device, planned
  std::map<std::string, Traffic> measured_communication() const;  ///< of the last step
  const Graph& graph() const;
  const ShardingPlan& plan() const;
  const SpmdProgram& program() const;
  std::string explain() const;
  /// Throws Error naming the known parameters.
  ShardingSpec sharding_of(const std::string& name) const;
  void save_plan(const std::string& path) const;

 private:
  friend Executable parallelize_with_plan(const TrainingStep&, const Method&, const Cluster&,
                                          std::optional<std::string> plan_path);
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Traces, plans, partitions and loads `step`. Throws Error on a mistake of the model, the method's options
/// or the cluster.
Executable parallelize(const TrainingStep& step, const Method& method, const Cluster& cluster);

/// The same with the plan read from a file instead of solved for. Throws Error if it belongs to another
/// graph or mesh.
Executable load_plan(const TrainingStep& step, const Method& method, const Cluster& cluster,
                     const std::string& path);

/// Plans only: no devices needed.
struct Planned {
  Graph graph;
  ShardingPlan plan;
  SpmdProgram program;
  std::int64_t memory_bytes = 0;
};
Planned plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster);

}  // namespace alpa
