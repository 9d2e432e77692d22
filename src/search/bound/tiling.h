#pragma once
/// Which lists of submeshes tile a cluster, as an automaton that reads one submesh after the other.
#include <vector>

#include "src/search/bound/submesh.h"

namespace alpa::inter_op {

/// States with numbers from `from` to `from + count - 1` lead to those from `to` on.
struct TilingStep {
  int from = 0, to = 0, count = 1;
};

/// A list of submeshes tiles the cluster if its steps lead from state 0 to state `full`.
/// Every step leads to a state with more devices.
struct Tiling {
  int states = 1;
  int full = 0;
  std::vector<std::vector<TilingStep>> steps;  ///< per submesh; none: it is not used
  std::vector<int> devices;                    ///< used in each state, ascending
};

/// Automata that accept lists of `submeshes` that `place` can place: a list is accepted if one of
/// them accepts it. All such lists, if there is one host, if each part's devices divide the next
/// larger part's (powers of two), or if hosts can be filled in at most 512 ways. Otherwise, the
/// lists in which sizes divide each other, and those in which parts of one host follow each other,
/// apart from stages of whole hosts between them.
std::vector<Tiling> tilings(const Submesh& cluster, const std::vector<Submesh>& submeshes);

}  // namespace alpa::inter_op
