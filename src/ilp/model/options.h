#pragma once
/// Options of a solve, and the sizes that it reports.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "src/ilp/model/problem.h"

namespace alpa::ilp {

/// The exact reductions; each keeps at least one optimal solution and can be switched
/// off (for tests and studies).
struct Presolve {
  /// drop strategies without a finite partner, or that can never fit the usage limit
  bool arc_consistency = true;
  /// move row and column minima of edges to their nodes; drop edges that become zero
  bool projection = true;
  /// a node whose every strategy allows one strategy of a neighbour absorbs that neighbour
  bool merge = true;
  /// Goldstein: drop a strategy that another one replaces at no loss, usages included
  bool dominance = true;
  bool degree_one = true;   ///< min-plus elimination of leaves
  bool degree_two = true;   ///< min-plus elimination of nodes between two neighbours
  bool rows = true;         ///< drop usage rows that cannot be violated or that another row implies
  bool elimination = true;  ///< bounded elimination of nodes of any degree that have no usage left
};

/// When a solve ends.
struct Limits {
  /// wall clock; the best choice is returned when it is reached, or soon after
  double seconds = 60;
  /// Ends the search, as the time limit does, when another thread or a signal handler sets it true.
  const std::atomic<bool>* stop = nullptr;
  /// Limits work instead of time, so that the answer does not depend on the machine: cells of cost
  /// tables read; 10^9 take a second or two. 0: no limit.
  std::int64_t work = 0;
  double relative_gap = 0;  ///< stop when (cost - lower bound) / cost is at most this
  /// After the share of the time, or of the work, rounds of the search that end below this gap are
  /// the last. Unlike `relative_gap` it does not end a round of the dual bound, which often goes
  /// far below it.
  double modest_gap = 0, modest_share = 0;
  /// Only cheaper choices matter: the solve ends as soon as the lower bound reaches this. It may
  /// return a choice that costs as much or more, or throw TimedOut if it has none.
  std::int64_t cutoff = kInfinite;
  bool grace = true;  ///< without a choice, search for one for half a second after the limit
};

/// How a solve searches.
struct Methods {
  Presolve presolve;
  std::int64_t elimination_cells = 1 << 22;  ///< largest table that elimination may build
  int dual_sweeps = 400;  ///< sweeps of the dual bound per round; 0 switches the dual bound off
  bool use_cbc = true;    ///< false: stop at the best bound and choice found without branching
  bool large_neighbourhood_search =
      true;  ///< spend the remaining time on improving parts of the best choice
};

/// Options of a solve.
struct Options {
  Limits limits;
  Methods methods;
  /// One strategy per node of the problem to start from; empty: none. If it is feasible, the
  /// solution is never worse, whatever the limits. If it is infeasible, it is ignored.
  std::vector<int> start;
  /// Prices of a unit of usage by time, from which the search for better ones starts. Any will do.
  std::map<std::int64_t, double> usage_prices;
  /// Called by the solving thread once a choice is known, then whenever its cost or the proven
  /// lower bound improves. It must not throw.
  std::function<void(std::int64_t cost, std::int64_t lower_bound)> progress;
  /// false: Infeasible is thrown as soon as it is proven, and may understate
  bool explain = true;
};

/// Sizes of the problem, and of the integer program where one was needed.
struct Statistics {
  int nodes = 0;
  std::int64_t strategies = 0;
  std::int64_t variables = 0,
               constraints = 0;  ///< of the last integer program given to CBC; 0 if none was needed
};

}  // namespace alpa::ilp
