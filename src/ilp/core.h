#pragma once
/// What the reductions leave: bound, rounding, fixing, branching.
#include "alpa/ilp/solve.h"
#include "model.h"

namespace alpa::ilp {

struct CoreSolution {
  std::vector<int> choice;  ///< of all nodes of the model
  Cost cost = kNever;       ///< with the model's constant
  Cost bound = -kNever;     ///< with the model's constant
};

/// Best choice within the deadline. Throws Contradiction if there is none, TimedOut if none was found.
CoreSolution solve_core(Model model, const Options& options, const Deadline& deadline,
                        Statistics& statistics);

}  // namespace alpa::ilp
