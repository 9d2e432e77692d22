// The reader's map: from a training step to device programs, one pass per line of `lower_plan` and
// `compile`.
#include "alpa/parallelize.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>

#include "alpa/base/file.h"
#include "alpa/cost/cost_model.h"
#include "alpa/intra_op/auto_shard.h"
#include "src/runtime/backend.h"

namespace alpa {
namespace {

using Options = ParallelMethod<MethodKind::shard>;
using Clock = std::chrono::steady_clock;

constexpr FileKind kPlanFile{"plan file", 1 << 28};

/// Solutions of the integer program that are tried under a tightened budget before giving up.
constexpr int kBudgetAttempts = 6;

/// Time kept for lowering what searches find: a share of the time for planning or, for a large graph, a
/// multiple of the time that tracing took, but no more than half.
constexpr double kLoweringShare = 0.1, kLoweringOfTracing = 12, kMostLoweringShare = 0.5;

/// A method's kind and options as plain data.
struct Settings {
  MethodKind kind;
  Options options;
};

Settings settings_of(const Method& method) {
  const auto copy = [](const auto& m) -> Settings {
    return {m.kind,
            {m.num_micro_batches, m.mesh_shape, m.batch_mesh_axis, m.allow_all_gather, m.allow_all_to_all,
             m.memory_budget_bytes, m.solver_seconds, m.relative_gap, m.stop, m.progress, m.dump_dir,
             m.executor}};
  };
  return std::visit(copy, method);
}

/// Checks every pass's result and writes it to the dump directory, numbered in the order in which the
/// passes first ran.
class Passes {
 public:
  explicit Passes(std::string directory) : directory_(std::move(directory)) {
    if (directory_.empty()) return;
    std::error_code failure;
    std::filesystem::create_directories(directory_, failure);
    require(!failure, "dump_dir {}: {}", directory_, failure.message());
  }

  Graph check(const char* name, Graph graph) const {
    verify(graph);
    write(name, [&] { return to_string(graph); });
    return graph;
  }

  ShardingPlan check(const char* name, ShardingPlan plan, const Graph& graph) const {
    verify(plan, graph);
    write(name, [&] { return to_json(plan, graph); });
    return plan;
  }

  SpmdProgram check(const char* name, SpmdProgram program) const {
    verify(program);
    write(name, [&] { return to_string(program); });
    return program;
  }

  SpmdProgram run(const std::vector<BackendPass>& passes, SpmdProgram program,
                  const ExecutorOptions& options) const {
    for (const BackendPass& pass : passes)
      if (!pass.option || options.*pass.option) program = check(pass.dump, pass.run(program));
    return program;
  }

  template <class Text>
  void write(const char* name, Text&& text) const {
    if (directory_.empty()) return;
    const std::string path = fmt::format("{}/{:02}_{}", directory_, number_of(name), name);
    write_file(path, text());
  }

 private:
  int number_of(const std::string& name) const {
    const auto known = std::find(names_.begin(), names_.end(), name);
    const auto number = static_cast<int>(known - names_.begin()) + 1;
    if (known == names_.end()) names_.push_back(name);
    return number;
  }

  std::string directory_;
  mutable std::vector<std::string> names_;  ///< of what has been written
};

void check_options(const Settings& settings, const Cluster& cluster) {
  const Options& options = settings.options;
  require(cluster.num_devices() >= 1, "parallelize: the cluster has {} devices; at least 1 is needed",
          cluster.num_devices());
  require(options.num_micro_batches >= 1, "parallelize: {} micro-batches; give at least 1",
          options.num_micro_batches);
  require(options.solver_seconds > 0, "parallelize: solver_seconds is {}; give more than 0",
          options.solver_seconds);
  require(options.relative_gap >= 0 && options.relative_gap < 1,
          "parallelize: relative_gap is {}; give at least 0 and less than 1", options.relative_gap);
  require(options.memory_budget_bytes.value_or(1) > 0,
          "parallelize: a memory budget of {} bytes; give more than 0", *options.memory_budget_bytes);
}

std::vector<DeviceMesh> candidate_meshes(const Settings& settings, const Cluster& cluster) {
  const Options& options = settings.options;
  if (settings.kind == MethodKind::serial) return {cluster.submesh(1, 1).mesh({1})};
  if (!options.mesh_shape.empty()) return {cluster.mesh(options.mesh_shape)};
  std::vector<DeviceMesh> meshes;
  for (const std::vector<int>& shape : logical_mesh_shapes(cluster.num_devices())) {
    if (options.batch_mesh_axis.value_or(0) < static_cast<int>(shape.size()))
      meshes.push_back(cluster.mesh(shape));
  }
  require(!meshes.empty(),
          "parallelize: batch_mesh_axis is {}, but no mesh of {} devices has that many axes",
          options.batch_mesh_axis.value_or(0), cluster.num_devices());
  return meshes;
}

/// Seconds for searches of a graph that took so long to trace.
double search_seconds(double solver_seconds, double trace_seconds) {
  const double lowering = std::clamp(kLoweringOfTracing * trace_seconds, kLoweringShare * solver_seconds,
                                     kMostLoweringShare * solver_seconds);
  return std::max(0.0, solver_seconds - trace_seconds - lowering);
}

AutoShardOptions search_options(const Settings& settings, double trace_seconds) {
  AutoShardOptions search;
  if (settings.kind == MethodKind::data) search = data_parallel_options();
  if (settings.kind == MethodKind::zero2) search = zero2_options();
  if (settings.kind == MethodKind::zero3) search = zero3_options();
  search.method = name_of(settings.kind);
  const Options& options = settings.options;
  if (settings.kind != MethodKind::serial) search.batch_mesh_axis = options.batch_mesh_axis;
  search.allow_all_gather = options.allow_all_gather;
  search.allow_all_to_all = options.allow_all_to_all;
  search.time_limit_seconds = search_seconds(options.solver_seconds, trace_seconds);
  search.relative_gap = options.relative_gap;
  search.progress = options.progress;
  search.stop = options.stop;
  return search;
}

/// What joint collectives may add to the peak of a program under a budget: what one of them holds, and no
/// more than a quarter of what the program leaves of the budget.
std::int64_t bucket_slack(const SpmdProgram& program, std::int64_t bucket_bytes, std::int64_t budget) {
  return std::clamp<std::int64_t>((budget - counted_bytes(program)) / 4, 0, bucket_bytes);
}

/// Plan to programs. Joining collectives keeps their operands until the last one is there; where that
/// breaks the budget, they join only as far as the peak stays; where that still does, each stays on its
/// own.
Planned lower_plan(const Graph& graph, ShardingPlan solved, const ExecutorOptions& options,
                   const Backend& backend, std::int64_t budget, const Passes& passes) {
  ShardingPlan plan = passes.check("plan.json", std::move(solved), graph);
  const SpmdProgram partitioned = passes.check("partitioned.txt", partition(graph, plan));
  const SpmdProgram joined = passes.run(backend.before_fusion, partitioned, options);
  const SpmdProgram fused = passes.check("fused.txt", fuse_elementwise(joined));
  const auto lowered = [&](std::int64_t bucket_bytes, std::int64_t slack) -> Planned {
    SpmdProgram program = passes.check("bucketed.txt", bucket_collectives(fused, bucket_bytes, slack));
    program = passes.run(backend.behind_buckets, std::move(program), options);
    LoweredProgram devices = lower_program(program, options, backend.name);
    passes.write("device0.txt", [&] { return to_string(devices.firsts.front(), program); });
    std::int64_t bytes = 0;  // exact, as an executor will take
    for (const DeviceProgram& device : devices.firsts) bytes = std::max(bytes, device.arena_bytes);
    return {graph, plan, std::move(program), bytes, 0, repeated_work(plan, graph), std::move(devices)};
  };
  const std::int64_t slack = bucket_slack(fused, options.bucket_bytes, budget);
  Planned planned = lowered(options.bucket_bytes, slack);
  if (planned.memory_bytes > budget && slack > 0) planned = lowered(options.bucket_bytes, 0);
  return planned.memory_bytes <= budget ? planned : lowered(0, 0);
}

/// Bytes that a device may use.
std::int64_t budget_of(const Settings& settings, const Cluster& cluster) {
  const std::int64_t budget = settings.options.memory_budget_bytes.value_or(cluster.device.memory_bytes);
  return budget > 0 ? budget : std::numeric_limits<std::int64_t>::max();
}

/// The limit on the bytes that the planner counts, moved until the exact peak keeps the budget. The count
/// knows neither padding and scratch nor what packing loses and what overlapping collectives keep alive;
/// and it may be too high where nodes are fused in ways it does not foresee.
class PlannersLimit {
 public:
  explicit PlannersLimit(std::int64_t budget) : budget_(budget), bytes_(budget) {}

  std::int64_t bytes() const { return bytes_; }

  /// The plan under this limit really takes `peak` bytes, more than the budget.
  void was_too_high(std::int64_t peak) {
    over_ = bytes_;
    step_ = std::max(peak - budget_, 2 * step_);  // a small excess can take a far smaller limit
    bytes_ = std::max<std::int64_t>(bytes_ - step_, 0);
    if (bytes_ <= under_) bytes_ = under_ + (over_ - under_) / 2;
  }

  /// No plan keeps this limit; `missing` bytes would have to be added at least.
  void was_too_low(std::int64_t missing) {
    under_ = bytes_ + std::max<std::int64_t>(missing - 1, 0);
    bytes_ = over_ == kNone ? under_ + 1 : under_ + (over_ - under_) / 2;
  }

  /// Another plan within the budget is not to be expected.
  bool is_exhausted() const {
    return over_ - under_ < budget_ / 200 || bytes_ > budget_ + budget_ / 10 || bytes_ == under_;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t budget_, bytes_, step_ = 0;
  std::int64_t under_ = 0, over_ = kNone;  ///< limits known to be too low and too high
};

[[noreturn]] void fail_budget(std::int64_t budget, std::int64_t least, bool time_is_over) {
  fail(
      "the smallest plan found needs {} bytes per device, {} more than the memory budget of {}; use more "
      "devices, more micro-batches, ShardParallel instead of a fixed method, or raise the budget{}",
      least, least - budget, budget, time_is_over ? " or solver_seconds, which were used up" : "");
}

/// The best plan without a budget, if it fits, is the best plan. Else the planner is given a limit.
Planned plan_within_budget(const Graph& graph, const Settings& settings, double trace_seconds,
                           const Cluster& cluster, const Passes& passes) {
  const std::int64_t budget = budget_of(settings, cluster);
  AutoShardOptions options = search_options(settings, trace_seconds);
  options.memory_budget_bytes = budget;
  AutoSharding search(graph, candidate_meshes(settings, cluster), CostModel::of(cluster), options);
  const auto planned = [&](std::optional<std::int64_t> limit) {
    return lower_plan(graph, search.plan(limit), settings.options.executor, find_backend(cluster.backend),
                      budget, passes);
  };
  Planned best = planned(std::nullopt);
  if (best.memory_bytes <= budget) return best;
  const std::int64_t unconstrained = best.memory_bytes;
  std::exception_ptr failure;
  PlannersLimit limit(budget);
  for (int attempt = 0; attempt < kBudgetAttempts && !limit.is_exhausted(); ++attempt) {
    try {
      Planned next = planned(limit.bytes());
      limit.was_too_high(next.memory_bytes);
      if (next.memory_bytes < best.memory_bytes) best = std::move(next);
      if (best.memory_bytes <= budget) return best;
    } catch (const OverBudget& error) {
      if (limit.bytes() == budget) failure = std::current_exception();
      limit.was_too_low(error.missing_bytes);
      if (search.is_over()) break;  // plans that are known already take no more time
    }
  }
  if (failure && best.memory_bytes == unconstrained) std::rethrow_exception(failure);
  fail_budget(budget, best.memory_bytes, search.is_over());
}

ShardingPlan read_plan(const Graph& graph, const Cluster& cluster, const std::string& path) {
  ShardingPlan plan = plan_from_json(read_file(path, kPlanFile), graph, path);
  const int devices = plan.mesh.num_devices();
  const bool serial = plan.method == "serial" && devices == 1;
  require(devices == cluster.num_devices() || serial,
          "plan file {}: the plan is for {} devices (mesh {}), but the cluster has {}", path, devices,
          shape_text(plan.mesh), cluster.num_devices());
  for (int d = 0; d < devices; ++d)
    require(plan.mesh.devices()[d] < cluster.num_devices(),
            "plan file {}: mesh.devices[{}]: found {}; the cluster has devices 0 to {}", path, d,
            plan.mesh.devices()[d], cluster.num_devices() - 1);
  return plan;
}

/// A plan from a file, which keeps the budget as a planned one would.
Planned planned_from_file(const Graph& graph, const Settings& settings, const Cluster& cluster,
                          const std::string& path, const Passes& passes) {
  const std::int64_t budget = budget_of(settings, cluster);
  Planned planned = lower_plan(graph, read_plan(graph, cluster, path), settings.options.executor,
                               find_backend(cluster.backend), budget, passes);
  require(planned.memory_bytes <= budget,
          "plan file {}: the plan needs {} bytes per device, {} more than the memory budget of {}; plan "
          "again within it, or raise the budget",
          path, planned.memory_bytes, planned.memory_bytes - budget, budget);
  return planned;
}

Planned compile(const TrainingStep& step, const Settings& settings, const Cluster& cluster,
                const std::string& plan_path) {
  const Clock::time_point start = Clock::now();
  check_options(settings, cluster);
  const Passes passes(settings.options.dump_dir);
  const Graph graph = passes.check("graph.txt", step.trace(settings.options.num_micro_batches));
  const double trace_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  Planned planned = plan_path.empty() ? plan_within_budget(graph, settings, trace_seconds, cluster, passes)
                                      : planned_from_file(graph, settings, cluster, plan_path, passes);
  planned.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return planned;
}

}  // namespace

void require_devices(const Cluster& cluster) {
  find_backend(cluster.backend).require_devices(cluster.num_devices());
}

Planned plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster) {
  return compile(step, settings_of(method), cluster, "");
}

Executable parallelize(const TrainingStep& step, const Method& method, const Cluster& cluster) {
  require_devices(cluster);
  const Settings settings = settings_of(method);
  return {compile(step, settings, cluster, ""), step, cluster, settings.options.executor};
}

Executable load_plan(const TrainingStep& step, const Method& method, const Cluster& cluster,
                     const std::string& path) {
  require_devices(cluster);
  const Settings settings = settings_of(method);
  return {compile(step, settings, cluster, path), step, cluster, settings.options.executor};
}

}  // namespace alpa
