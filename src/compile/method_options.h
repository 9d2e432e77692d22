#pragma once
/// A parallel method's options, whatever its kind, as the driver reads them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/compile/parallel_method.h"
#include "alpa/mesh/cluster.h"
#include "src/base/infinity.h"
#include "src/base/work.h"
#include "src/ir/limits.h"
#include "src/search/sharding/auto_shard.h"

namespace alpa {

/// The options of a method.
struct MethodOptions {
  MethodKind kind;
  PipeshardParallel options = {};              ///< of layers and stages: only of method pipeline
  std::int64_t most_nodes = kMaxPlannedNodes;  ///< of the step's graph, times devices
  /// Since planning began. It ends after so much work (src/base/work.h), and at this limit of the
  /// clock whatever its work; both in seconds.
  PlanningWatch watch = {};
  double work_limit = 0, clock_limit = 0;

  /// Planning begins, with limits that follow from `solver_seconds`.
  void begin_planning();

  /// True if either limit has passed, or planning was stopped.
  bool is_over() const;
  double clock_left() const;  ///< seconds, until planning ends; 0 if it is to stop
};

MethodOptions options_of(const Method& method);

/// Name of the schedule; "auto" if the planner may choose.
std::string_view schedule_name(const PipeshardParallel& options);

/// True if the planner searches for stages.
bool searches_stages(const MethodOptions& method);

/// Throws Error for an option, or a cluster, that no plan can follow.
void check_options(const MethodOptions& method, const Cluster& cluster);

/// Throws Error if the graph has more nodes than a graph may hold, or more than `most_nodes` of the
/// method on all devices together (src/ir/limits.h).
void check_size(const Graph& graph, const MethodOptions& method, const Cluster& cluster);

/// The logical meshes among which the planner chooses. Throws Error if there is none.
std::vector<DeviceMesh> candidate_meshes(const MethodOptions& method, const Cluster& cluster);

/// How long the trace of a graph took.
struct TraceSeconds {
  explicit TraceSeconds(const PlanningWatch& watch)
      : work(watch.work.seconds()), clock(watch.clock.seconds()) {}
  TraceSeconds() = default;
  double work = 0, clock = 0;
};

/// Limit of the very first plan of a step, in seconds of processor time (SearchLimits).
double first_plan_seconds(const MethodOptions& method);

/// The planner's options for a graph, and the time that is left for it: without what lowering
/// takes, and without the work that was done before (default: tracing).
intra_op::AutoShardOptions search_options(const MethodOptions& method, const TraceSeconds& tracing,
                                          std::optional<double> work_before = {});

/// Throws Error if a plan from file `path` holds whole what `shard_optimizer_state` splits.
void require_sharded_state(const ShardingPlan& plan, const Graph& graph, const std::string& path);

/// Bytes that each device may use.
std::int64_t memory_budget(const MethodOptions& method, const Cluster& cluster);

}  // namespace alpa
