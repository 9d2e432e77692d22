#pragma once
/// One attempt to solve a valid problem, without an explanation if no choice exists.
#include <variant>

#include "src/ilp/model/model.h"
#include "src/ilp/solve.h"

namespace alpa::ilp {

/// The solution, or why none exists. Throws TimedOut.
std::variant<Solution, Contradiction> attempt(const Problem& problem, const Options& options,
                                              const Deadline& deadline);

/// Throws Infeasible for a problem on which `attempt` found that no choice exists, or TimedOut if
/// there is no time to find out why.
[[noreturn]] void explain_infeasible(const Problem& problem, const Options& options,
                                     const Contradiction& why, const Deadline& deadline);

}  // namespace alpa::ilp
