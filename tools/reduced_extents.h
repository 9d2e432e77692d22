#pragma once
/// A plan's stages with small tensors: the same operators, strategies and conversions.
#include <vector>

#include "alpa/plan/pipeline_plan.h"

namespace tools {

/// The stages with every extent as small as their rules and the splits of the plan allow: about two
/// elements per part and six in all; uneven parts stay uneven. Where operators tie extents
/// otherwise, such as the windows of convolutions, only the batch is smaller. As they are if that
/// is not possible either.
std::vector<alpa::StagePlan> with_reduced_extents(const std::vector<alpa::StagePlan>& stages);

}  // namespace tools
