#pragma once
/// Finds a first feasible choice early, so that a solution exists at any time limit.
#include <vector>

#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// A feasible choice of the live nodes; nothing after `dives` dives or at the deadline. By turns a
/// dive does without the rows and is repaired, and another keeps them; from pair to pair they may
/// undo twice as many steps. Throws Contradiction if a dive
/// proves that there is no feasible choice.
std::vector<int> first_choice(const Model& model, int dives, const Deadline& deadline);

}  // namespace alpa::ilp
