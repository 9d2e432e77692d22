#pragma once
/// The batch of stages.
#include <vector>

#include "alpa/plan/pipeline_plan.h"
#include "src/search/stages/cut_stages.h"

namespace alpa {

/// Of the values that stages give each other, the dimension that is the batch, by reading stage. It
/// is known from the stages that compute them.
std::vector<BoundaryBatchDims> batch_dims_of(const std::vector<StagePlan>& stages);

}  // namespace alpa
