#pragma once
/// One attempt at a valid problem, without an explanation when there is no choice.
#include <optional>

#include "alpa/ilp/solve.h"
#include "model.h"

namespace alpa::ilp {

/// The solution, or nothing if none exists. Throws TimedOut.
std::optional<Solution> attempt(const Problem& problem, const Options& options, const Deadline& deadline);

/// Throws Infeasible for a problem on which `attempt` found that no choice exists.
[[noreturn]] void explain_infeasible(const Problem& problem, const Options& options,
                                     const Deadline& deadline);

}  // namespace alpa::ilp
