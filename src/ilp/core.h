#pragma once
/// What the reductions leave: bound, rounding, fixing, branching.
#include "alpa/ilp/solve.h"
#include "model.h"

namespace alpa::ilp {

struct CoreSolution {
  std::vector<int> choice;  ///< of the live nodes
  Cost bound = -kNever;     ///< without the model's constant
};

/// Best choice of the live nodes within the deadline. May reduce the model further (its trail grows).
/// Throws Contradiction if there is none, TimedOut if none was found.
CoreSolution solve_core(Model& model, const Options& options, const Deadline& deadline,
                        Statistics& statistics);

}  // namespace alpa::ilp
