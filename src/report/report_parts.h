#pragma once
/// The parts of a report that are about one stage.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"
#include "src/plan/evaluation/evaluate.h"

namespace alpa::page {

/// "blocks.11.attention.query/einsum" as "blocks.*.attention.query/einsum", "dense2.kernel" as
/// "dense*.kernel": layers share it.
std::string pattern_of(const std::string& name);

/// Per class of alike operators, the most seconds first: seconds, FLOPs and bytes of a step and
/// device, what bounds them, and their strategy. At most `most` classes; the first `choices` have
/// their next best strategy, too.
nlohmann::ordered_json operators_json(const intra_op::PricedPlan& priced, int stage,
                                      std::size_t most, std::size_t choices);

/// Seconds of a step by what bounds them: products, memory, communication.
nlohmann::ordered_json time_json(const intra_op::PricedPlan& priced);

/// Per layer, equal neighbours folded, how parameters and results of products are laid out.
nlohmann::ordered_json sharding_json(const intra_op::PricedPlan& priced, int stage);

/// Bytes that live at points of the step, by what they hold. `in_flight`: micro-batches whose
/// activations are kept at the same time.
nlohmann::ordered_json memory_json(const intra_op::PricedPlan& priced, int in_flight);

/// Per mesh axis and kind of collective: calls, bytes sent and seconds of a step; and the largest
/// ones, with what they are for.
nlohmann::ordered_json communication_json(const intra_op::PricedPlan& priced, int stage);

/// Layouts that people choose by hand (search/sharding/templates.h), each with its best plan: per
/// stage that differs from those before it, all of its logical mesh and the best of every other
/// one, cheapest first; seconds and bytes as the stage's own. Those reached in 0.8 s.
nlohmann::ordered_json hand_made_json(const Plan& plan, const Cluster& cluster);

}  // namespace alpa::page
