#pragma once
/// Planning by layers: each distinct layer of a stack is solved once, for every choice of the specs
/// at its boundary. The best plan of the whole follows from these tables. If a table is too large
/// to be exact, its cells hold proven bounds, and cells that the best plan could use are solved.
/// The plan has a gap only if such a cell remains between its bounds.
#include <cstdint>
#include <functional>
#include <limits>
#include <variant>

#include "src/base/infinity.h"
#include "src/search/space/auto_shard_options.h"
#include "src/search/space/planning_cache.h"

namespace alpa::intra_op {

struct LayeredPlan {
  ShardingPlan plan;
  int parts = 0;          ///< layers, and the nodes of no layer
  int tables = 0;         ///< different ones among them
  int new_tables = 0;     ///< of these, not known to the cache before
  int new_cells = 0;      ///< of tables between bounds, not visited before
  std::int64_t work = 0;  ///< cells of tables read
};

/// The table of a part needs `cells` cells or more (0: it is not exact, as the limits want);
/// `layer` -1: the nodes of no layer, -2: combining the tables. Or, if `is_unfinished`, the work or
/// the time was used up before, or no plan is below the cutoff.
struct LayerTooLarge {
  int layer = -1;
  double cells = 0;
  bool is_unfinished = false;
  double lower_bound_seconds = 0;  ///< proven until then
  std::int64_t work = 0;           ///< as in LayeredPlan
};

/// Limits of planning by layers.
struct LayeringLimits {
  std::int64_t most_cells = std::int64_t{1} << 22;  ///< of one table
  /// Cells of tables that may be read (ilp::Limits::work).
  std::int64_t work = std::numeric_limits<std::int64_t>::max();
  /// asked between steps; empty: never
  std::function<bool()> is_over = {};
  bool exact = false;  ///< end at the first part whose table is too large to be exact
  /// plans that cost more are not wanted
  double cutoff_seconds = kInfinity;
};

/// The best plan of `graph`, whose layers are those of `LayerScope` (ir/layers.h), without a memory
/// budget. Ignores the options' budget, time limit and specs of outputs. Throws Error if the
/// options split the batch, because a single layer does not determine the batch.
std::variant<LayeredPlan, LayerTooLarge> plan_by_layers(const Graph& graph, const DeviceMesh& mesh,
                                                        const cost::CostModel& model,
                                                        const AutoShardOptions& options,
                                                        PlanningCache& cache,
                                                        const LayeringLimits& limits = {});

}  // namespace alpa::intra_op
