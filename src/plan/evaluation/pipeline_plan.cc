// src/plan/evaluation/pipeline_plan.cc — the sharding of a step on one mesh
#include "alpa/plan/pipeline_plan.h"

#include "alpa/base/error.h"

namespace alpa {

const ShardingPlan& Plan::sharding() const {
  require(stages.size() == 1,
          "the plan has {} stages, each with a sharding of its own; read Plan::stages",
          stages.size());
  return stages.front().plan;
}

}  // namespace alpa
