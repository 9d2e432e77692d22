#pragma once
/// The batch of stages.
#include <vector>

#include "alpa/plan/pipeline_plan.h"
#include "src/search/stages/cut_stages.h"

namespace alpa {

/// Batch dimensions of the values that stages give each other, by reading stage. It is known from
/// the stages that compute them.
std::vector<BoundaryBatchDims> batch_dims_of(const std::vector<StagePlan>& stages);

}  // namespace alpa
