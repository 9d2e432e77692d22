#pragma once
/// A plan at a glance.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alpa/intra_op/plan.h"
#include "src/cost/cost_model.h"
#include "src/intra_op/plan/priced_plan.h"

namespace alpa::intra_op {

/// At most ten lines, see `explain`.
std::string plan_summary(const PricedPlan& priced, std::optional<std::int64_t> memory_bytes);

/// How far from the optimum the plan is at most: "proven optimal", "within 0.44 % of optimal (no
/// plan takes less than 69 ms)", "not proven to be optimal", "along the plan of another step".
std::string proof_text(std::string_view method, const PlanCost& cost);
/// The same without the bound in seconds.
std::string proof_words(const PlanCost& cost);

/// The numbers with the most of `seconds`, descending: at most `most` of those that `counts`
/// allows.
std::vector<int> slowest(const std::vector<double>& seconds, std::size_t most,
                         const std::function<bool(int)>& counts);

/// "+3.1 ms", "-0.12 ms", "+0".
std::string extra_text(double seconds);

}  // namespace alpa::intra_op
