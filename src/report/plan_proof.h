#pragma once
/// What is proven of a plan, in words: the one text for summaries, explanations and files.
#include <string>

#include "alpa/inter_op/plan.h"

namespace alpa {

/// "proven optimal", "within 0.44 % of optimal (no plan takes less than 69 ms)", "along the plan of
/// another step". Of stages without a bound, as they were given or as time was over: "not compared
/// with other stages, each alone proven optimal".
std::string proof_text(const Plan& plan);

/// Whether there is a bound, so that the gap says something.
bool has_bound(const Plan& plan);

}  // namespace alpa
