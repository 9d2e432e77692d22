#pragma once
/// A lower bound without a search for choices: the dual bound after few sweeps.
#include <cstdint>

#include "src/ilp/model/problem.h"

namespace alpa::ilp {

/// Proven: no choice of a problem without usages costs less; kInfinite: it has no choice. Small
/// reductions and at most `sweeps` sweeps of the dual bound, fewer where they no longer raise it by
/// a relative 1e-4. It depends on nothing but the arguments. Throws Error for a malformed problem.
std::int64_t dual_bound(const Problem& problem, int sweeps);

}  // namespace alpa::ilp
