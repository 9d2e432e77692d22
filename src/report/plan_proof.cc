// src/report/plan_proof.cc — says how far from the optimum a plan is at most
#include <algorithm>

#include "alpa/base/text.h"
#include "alpa/inter_op/plan.h"
#include "src/report/plan_summary.h"

namespace alpa {

bool has_bound(const Plan& plan) {
  return plan.cost.lower_bound_seconds > 0 || plan.cost.objective_seconds <= 0;
}

std::string proof_text(const Plan& plan) {
  if (!plan.schedule || plan.method == kFollow || has_bound(plan))
    return intra_op::proof_text(plan.method, plan.cost);
  const auto worst = std::max_element(
      plan.stages.begin(), plan.stages.end(),
      [](const auto& a, const auto& b) { return a.plan.cost.gap() < b.plan.cost.gap(); });
  return fmt::format("not compared with other stages, each alone {}",
                     intra_op::proof_words(worst->plan.cost));
}

}  // namespace alpa
