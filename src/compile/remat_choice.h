#pragma once
/// Chooses which layers of a step are computed again, under a memory budget.
#include <functional>
#include <string>
#include <vector>

#include "alpa/compile/compiled_step.h"
#include "alpa/train/training_step.h"
#include "src/plan/cost/cost_model.h"

namespace alpa {

/// Plans a step; throws intra_op::OverBudget if no plan fits the memory budget. `share`: of the
/// seconds for planning.
using PlanStep = std::function<CompiledStep(const TrainingStep& step, double share)>;

/// The plan of `step` without rematerialisation, if that fits the budget. Else layers are ordered
/// by the bytes that they free per second that they take again, as on one device (equal ones as in
/// the model, as the first are kept longest); the shortest beginning of that order whose plan keeps
/// the budget, and is no slower than with more layers, is found by bisection and returned.
/// `step` is one that leaves the choice to the planner. Throws Error if no plan fits the budget
/// with every layer computed again.
CompiledStep plan_choosing_remat(const TrainingStep& step, int num_micro_batches,
                                 const cost::CostModel& model, const PlanStep& plan);

/// The layers of `layers` that free something, in that order.
std::vector<int> layers_worth_recomputing(const TrainingStep& step, const std::vector<int>& layers,
                                          int num_micro_batches, const cost::CostModel& model);

/// The bisection alone, from a plan with all layers of `order`, until time is over.
CompiledStep with_fewest_recomputed(const TrainingStep& step, const std::vector<int>& order,
                                    CompiledStep with_all, const PlanStep& plan,
                                    const std::function<bool()>& is_over);

/// `step` with what a plan's file computes again, if it leaves the choice to the planner. Throws
/// Error on malformed text, naming `origin`.
TrainingStep with_remat_of_file(const TrainingStep& step, const std::string& text,
                                const std::string& origin);

}  // namespace alpa
