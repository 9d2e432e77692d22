#pragma once
/// A parallel method's options, whatever its kind, as the driver reads them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/compile/parallel_method.h"
#include "alpa/mesh/cluster.h"
#include "src/ir/limits.h"
#include "src/search/sharding/auto_shard.h"

namespace alpa {

/// The options of a method.
struct MethodOptions {
  MethodKind kind;
  PipeshardParallel options;                   ///< of layers and stages: only of method pipeline
  std::int64_t most_nodes = kMaxPlannedNodes;  ///< of the step's graph, times devices
};

MethodOptions options_of(const Method& method);

/// Of its schedule, "auto" if the planner may choose.
std::string_view schedule_name(const PipeshardParallel& options);

/// Whether the planner searches for stages.
bool searches_stages(const MethodOptions& method);

/// Throws Error for an option, or a cluster, that no plan can follow.
void check_options(const MethodOptions& method, const Cluster& cluster);

/// Throws Error if the graph has more nodes than a graph may hold, or more than `most_nodes` of the
/// method on all devices together (src/ir/limits.h).
void check_size(const Graph& graph, const MethodOptions& method, const Cluster& cluster);

/// The logical meshes among which the planner chooses. Throws Error if there is none.
std::vector<DeviceMesh> candidate_meshes(const MethodOptions& method, const Cluster& cluster);

/// The planner's options for a graph that took `trace_seconds` to trace, and the time that is left
/// for it: without what has passed (default: tracing), and what lowering takes.
intra_op::AutoShardOptions search_options(const MethodOptions& method, double trace_seconds,
                                          std::optional<double> passed_seconds = {});

/// Throws Error if a plan from file `path` holds whole what `shard_optimizer_state` splits.
void require_sharded_state(const ShardingPlan& plan, const Graph& graph, const std::string& path);

/// Bytes that each device may use.
std::int64_t memory_budget(const MethodOptions& method, const Cluster& cluster);

}  // namespace alpa
