#pragma once
/// Planning by layers: each different layer of a stack is solved once, for every choice of the specs at its
/// boundary, and the best plan of the whole follows from these tables. Exact: the plan costs what the
/// solver's best costs.
#include <cstdint>
#include <variant>

#include "alpa/intra_op/auto_shard.h"

namespace alpa {

struct LayeredPlan {
  ShardingPlan plan;
  int parts = 0;       ///< layers, and what belongs to none
  int tables = 0;      ///< different ones among them
  int new_tables = 0;  ///< of these, not known to the cache before
};

/// The table of a part needs `cells` cells or more; `layer` -1: what belongs to no layer, -2: putting the
/// tables together.
struct LayerTooLarge {
  int layer = -1;
  double cells = 0;
};

/// The best plan of `graph`, whose layers are those of `LayerScope` (ir/layers.h), without a memory budget.
/// No table has more than `most_cells` cells. The options' budget, time limit and specs of outputs are not
/// looked at. Throws Error if the options split the batch, which a layer by itself does not know.
std::variant<LayeredPlan, LayerTooLarge> plan_by_layers(const Graph& graph, const DeviceMesh& mesh,
                                                        const CostModel& model,
                                                        const AutoShardOptions& options,
                                                        PlanningCache& cache,
                                                        std::int64_t most_cells = std::int64_t{1} << 22);

}  // namespace alpa
