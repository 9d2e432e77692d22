#pragma once
/// Operators of a plan by name, and the layouts that they could have.
#include <string>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"
#include "src/plan/cost/cost_model.h"

namespace alpa {

/// An operator of a plan.
struct PlanOperator {
  int stage = 0, node = -1;
};

/// The operator that `name` names: its name, or "%12", a value that it computes, as the text of the
/// graph numbers it. With several stages "1:%12" and "1:name" mean stage 1. Throws Error, with
/// names to choose from, unless it names exactly one.
PlanOperator find_operator(const Plan& plan, const std::string& name);

/// "einsum "head/einsum"".
std::string operator_text(const Plan& plan, const PlanOperator& op);

/// The spec in which the plan has the first result of an operator.
const ShardingSpec& result_spec(const Plan& plan, const PlanOperator& op);

/// A spec in which an operator can leave its first result.
struct SpecChoice {
  ShardingSpec spec;
  /// Per step, over the plan, if all other operators stay; infinite: they cannot.
  double extra_seconds = 0;
};

/// All that the planner chooses from on the operator's mesh, the cheapest first.
std::vector<SpecChoice> spec_choices(const Plan& plan, const PlanOperator& op,
                                     const Cluster& cluster);

/// Throws Error, with those that it could have, if the planner has no such spec for the operator's
/// first result on any of the meshes.
void require_possible(const Plan& plan, const PlanOperator& op, const ShardingSpec& spec,
                      const std::vector<DeviceMesh>& meshes, const cost::CostModel& model);

}  // namespace alpa
