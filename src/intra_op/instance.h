#pragma once
/// The search space as a problem for the solver. Its nodes are, in order: the nodes of the graph; one for
/// the metrics, which want their values replicated; and a two-state node (0 absent, 1 present) for each
/// copy of a value that several uses might share. What a copy costs stands on its edge to the producer; its
/// edges to the uses forbid reading an absent copy. A use that alone could want a spec pays on its edge to
/// the producer.
#include "alpa/ilp/problem.h"
#include "search_space.h"
#include "uses.h"

namespace alpa {

/// Somebody who wants a value in a spec that depends on his strategy.
struct Reader {
  int node = -1;                             ///< of the solver's problem
  int choices = -1, operand = -1;            ///< say where `wanted` comes from; equal for equal `wanted`
  const std::vector<int>* wanted = nullptr;  ///< spec per strategy
  Use use;
};

/// Per value, its readers in the order of uses_of_values. An update reads on behalf of the input that it
/// replaces.
std::vector<std::vector<Reader>> readers_of_values(const Graph& graph, const SearchSpace& space);

struct Instance {
  ilp::Problem problem;
  double units_per_second = 1e9;  ///< of costs: nanoseconds, coarser only where their sum would overflow
};

Instance build_instance(const Graph& graph, const SearchSpace& space);

/// Whole units; kInfinite for infinity.
std::int64_t units(double seconds, double units_per_second);

}  // namespace alpa
