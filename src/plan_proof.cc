// src/plan_proof.cc — says how far from the optimum a planned step is at most
#include "plan_proof.h"

#include "alpa/base/text.h"
#include "src/report/plan_summary.h"

namespace alpa {

bool has_bound(const CompiledStep& step) {
  const PlanCost& cost = step.plan.cost;
  return cost.lower_bound_seconds > 0 || cost.objective_seconds <= 0;
}

std::string proof_text(const CompiledStep& step) {
  if (step.stages.empty() || step.plan.method == kFollow || has_bound(step))
    return intra_op::proof_text(step.plan);
  const StagePlan* worst = &step.stages.front();
  for (const StagePlan& stage : step.stages)
    if (stage.plan.cost.gap() > worst->plan.cost.gap()) worst = &stage;
  return fmt::format("not compared with other stages, each alone {}",
                     intra_op::proof_words(worst->plan.cost));
}

}  // namespace alpa
