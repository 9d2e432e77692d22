#pragma once
/// Parallel methods, and their options.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "alpa/lower/executor_options.h"
#include "alpa/plan/schedule_kind.h"
#include "alpa/plan/sharding_plan.h"
#pragma GCC visibility push(default)

namespace alpa {

/// The methods, one of each type below.
enum class MethodKind : std::uint8_t { serial, data, zero2, zero3, shard, pipeline };

/// Layers are what `mark_pipeline_boundary` and `LayerScope` say.
struct ManualLayers {};

/// Layers are found: of balanced FLOPs, with the fewest bytes between them. Marks have no effect.
struct AutoLayers {
  int count = 0;           ///< 0: as many as read few bytes of each other
  double tolerance = 0.5;  ///< a layer may have 1 + tolerance times the average FLOPs
};

/// How one stage is sharded: options of the method that a stage may have otherwise.
struct StageOptions {
  std::optional<int> batch_mesh_axis = {};  ///< as the method's
  bool shard_optimizer_state = false;       ///< as the method's
  bool allow_all_gather = true;             ///< false: no plan gathers
  bool allow_all_to_all = true;             ///< false: no plan uses all_to_all
};

/// Stages of these layers on these parts of the cluster.
struct ManualStages {
  /// Per stage its layers, in ascending order: {{0, 1}, {2}}.
  std::vector<std::vector<int>> layers;
  /// Per stage its number of devices. Empty: as for UniformStages.
  std::vector<int> devices = {};
  /// Per stage a logical mesh shape. Empty: every shape is tried and the cheapest taken.
  std::vector<std::vector<int>> mesh_shapes = {};
  /// Per stage its options. Empty: those of the method.
  std::vector<StageOptions> options = {};
};

/// This many stages of nearly equal FLOPs per device on equally many devices, or, where the devices
/// of a single host are no multiple of the stages, with one more for some.
struct UniformStages {
  int count = 2;  ///< number of stages
  /// Above 1, a part of the devices runs several stages that are not neighbours: stage s is on part
  /// s % (count / stages_per_part). Needs the schedule `interleaved_one_f_one_b`.
  int stages_per_part = 1;
};

/// Numbers of devices that stages may have: parts of one host, or whole hosts.
enum class SubmeshSizes : std::uint8_t {
  any,            ///< also three of eight devices, or five hosts
  powers_of_two,  ///< 1, 2, 4, … devices of a host or hosts, and the whole cluster: faster
};

/// Stages are searched for: any number, on parts of the cluster that tile it, each with the logical
/// mesh shape and the sharding that the planner finds. A stage that exceeds the memory of its
/// devices (`memory_budget_bytes`) with the micro-batches that the schedule keeps in flight gets a
/// plan with less memory, or other layers or devices.
struct AutoStages {
  SubmeshSizes submeshes = SubmeshSizes::any;  ///< parts of the cluster that may be used
  /// Logical mesh shapes that stages may have, e.g. {{1}, {4}, {2, 4}}; parts of the cluster with
  /// none of them are not used. Empty: every shape of every part.
  std::vector<std::vector<int>> mesh_shapes = {};
};

/// `num_micro_batches` of PipeshardParallel: the planner's choice among divisors of the batch,
/// about powers of two, by the predicted seconds of a step.
inline constexpr std::optional<int> kAutoMicroBatches = std::nullopt;

/// `schedule` of PipeshardParallel: where stages are searched for, 1F1B or 1F1B that overlaps
/// transfers, whichever is predicted to take less within the memory; otherwise 1F1B. Where memory
/// is short, the search takes longer than with one of them.
inline constexpr std::optional<ScheduleKind> kAutoSchedule = std::nullopt;

/// The type of an option that only PipeshardParallel has, in the other methods: no value of
/// another type converts to it.
struct OnlyPipeline {
  constexpr OnlyPipeline() = default;
  /// ignores the default value of the option
  explicit constexpr OnlyPipeline(const auto& /*unused*/) {}
};

/// A parallel method and its options, e.g. `ShardParallel{.num_micro_batches = 4}`. All methods
/// have the same options; PipeshardParallel has those of its stages, too.
template <MethodKind method>
struct ParallelMethod {
  /// `InPipeline` for PipeshardParallel, `Otherwise` for the other methods.
  template <class InPipeline, class Otherwise = OnlyPipeline>
  using Option = std::conditional_t<method == MethodKind::pipeline, InPipeline, Otherwise>;

  /// Number of parts of the batch over which gradients are accumulated; must divide the batch. Of
  /// PipeshardParallel also kAutoMicroBatches.
  Option<std::optional<int>, int> num_micro_batches = 1;
  Option<std::variant<ManualLayers, AutoLayers>> layers = {};  ///< default: ManualLayers
  /// how layers become stages; default: UniformStages
  Option<std::variant<UniformStages, ManualStages, AutoStages>> stages = {};
  /// Order of the micro-batches, or kAutoSchedule.
  Option<std::optional<ScheduleKind>> schedule =
      Option<std::optional<ScheduleKind>>(ScheduleKind::one_f_one_b);
  /// Logical mesh, e.g. {2, 4}; of each stage, unless ManualStages says it. Empty: every shape is
  /// tried and the cheapest taken.
  std::vector<int> mesh_shape = {};
  /// Forces the batch onto this mesh axis in every node with a batch dimension, forward and
  /// backward; other axes stay free. Off by default. Alpa's force_batch_dim_to_mesh_dim binds only
  /// matrix products, and is on by default (axis 0) for meshes with two axes.
  std::optional<int> batch_mesh_axis = {};
  /// Uses of the first mesh axes, of every stage: {AxisUse::zero2, AxisUse::tensor} on a mesh of
  /// data x tensor devices leaves the layouts of Megatron-LM. Empty: the planner's choice.
  std::vector<AxisUse> axis_uses = {};
  /// Splits optimizer state, and gradients summed over micro-batches, over all devices as far as
  /// their shapes allow: ZeRO stage 2 beside the tensor parallelism that the planner chooses for
  /// everything else. DataParallel, which holds them whole, refuses it.
  bool shard_optimizer_state = false;
  bool allow_all_gather = true;  ///< false: no plan gathers
  bool allow_all_to_all = true;  ///< false: no plan uses all_to_all
  /// Bytes a device may use; default: its memory according to the cluster.
  std::optional<std::int64_t> memory_budget_bytes = {};
  /// Seconds for planning and lowering. Planning may do half as many seconds of counted work, so
  /// that its plan depends neither on the machine nor on its load; the clock ends it once there is
  /// a plan. A large step's first plan may take 3 times as long, or 15 s, of processor time. 15 %,
  /// for large graphs up to half, is reserved for lowering. At the end the best plan so far is
  /// taken and its proven gap reported.
  double solver_seconds = 60;
  /// The search ends when (objective - bound) / objective is at most this. Easy problems are solved
  /// to proven optimality anyway.
  double relative_gap = 0.005;
  /// Ends planning early when another thread or a signal handler sets it true: the
  /// best plan so far is taken.
  const std::atomic<bool>* stop = nullptr;
  /// Called on the planning thread whenever the best plan or the bound improves.
  ProgressCallback progress = {};
  /// Directory where plans are kept whose search ended by itself, at `relative_gap`. One that
  /// depends on nothing that has changed (step, options, cluster, version) is taken without a
  /// search. Empty: none.
  std::string plan_cache_dir = {};
  /// Directory for the result of every pass: 01_graph.txt, 02_plan.json, …; empty: no files.
  std::string dump_dir = {};
  ExecutorOptions executor = {};  ///< how steps run

  static constexpr MethodKind kind = method;  ///< of this type
};

/// One device; the reference for all other methods.
using Serial = ParallelMethod<MethodKind::serial>;
/// Batch split, parameters and optimizer state on every device.
using DataParallel = ParallelMethod<MethodKind::data>;
/// Batch split, optimizer state split (ZeRO stage 2, Rajbhandari et al. 2020).
using Zero2Parallel = ParallelMethod<MethodKind::zero2>;
/// Batch split, parameters and optimizer state split, parameters gathered at use (ZeRO stage 3).
using Zero3Parallel = ParallelMethod<MethodKind::zero3>;
/// The best plan the planner finds.
using ShardParallel = ParallelMethod<MethodKind::shard>;

/// Layers are grouped into stages, each on a part of the devices of its own, where it is sharded as
/// `ShardParallel` would (Alpa's PipeshardParallel, Zheng et al. 2022).
using PipeshardParallel = ParallelMethod<MethodKind::pipeline>;

/// Any method, with its options.
using Method = std::variant<Serial, DataParallel, Zero2Parallel, Zero3Parallel, ShardParallel,
                            PipeshardParallel>;

/// Data, tensor and pipeline parallelism of these degrees, as Megatron-LM has them: `pipeline`
/// stages of nearly equal FLOPs, found without marks, each on data × tensor devices, whose first
/// mesh axis splits the batch. Needs a cluster of data · tensor · pipeline devices.
PipeshardParallel parallel_3d(int data, int tensor, int pipeline,
                              std::optional<int> num_micro_batches = kAutoMicroBatches);

/// "serial", "data", "zero2", "zero3", "shard", "pipeline".
std::string_view name_of(MethodKind kind);

/// The method of this name with default options. Throws Error naming the methods.
Method parse_method(std::string_view name);

}  // namespace alpa
#pragma GCC visibility pop
