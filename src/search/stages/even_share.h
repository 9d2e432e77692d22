#pragma once
/// A lower bound on every variant of a step, from two graphs of it alone.
#include "alpa/ir/graph.h"
#include "src/plan/cost/cost_model.h"

namespace alpa::inter_op {

/// Lower bound on the seconds of a step on `devices` devices, whatever its number of micro-batches
/// between those of `few` and `many`, its stages, its shardings and what it computes again: devices
/// share every operator evenly, at the best rate that a shape of it has, and send nothing. `few`
/// and `many` are traced without layers to compute again, if plans may do without. 0 if more
/// micro-batches need fewer FLOPs, as where experts get their tokens in products with masks.
double even_share_seconds(const Graph& few, const Graph& many, int devices,
                          const cost::CostModel& model);

}  // namespace alpa::inter_op
