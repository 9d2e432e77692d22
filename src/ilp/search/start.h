#pragma once
/// Carries a choice of the problem's nodes over to the reduced model.
#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// Translates `choice`, one strategy per node of the problem, to the live nodes: nodes whose
/// strategy was dropped take the cheapest that goes with the others, then small moves make it
/// cheaper for at most a quarter of the time. Nothing if the result is forbidden or exceeds rows.
std::vector<int> carry_over(const Model& model, std::vector<int> choice, const Deadline& deadline);

}  // namespace alpa::ilp
