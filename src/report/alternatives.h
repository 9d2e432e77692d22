#pragma once
/// The cost of a node's other strategies, all else equal.
#include <optional>

#include "alpa/intra_op/plan.h"
#include "src/cost/cost_model.h"
#include "src/intra_op/plan/priced_plan.h"

namespace alpa::intra_op {

/// The cheapest other strategy of one node when its neighbours keep theirs: not what the
/// second-best plan costs, in which they might change too.
struct Alternative {
  Strategy strategy;
  double extra_seconds = 0;  ///< per step, over the plan
};

/// One per node of `nodes`; nothing where a node has no other strategy that its
/// neighbours can live with.
std::vector<std::optional<Alternative>> next_best(const std::vector<int>& nodes,
                                                  const PricedPlan& priced);

}  // namespace alpa::intra_op
