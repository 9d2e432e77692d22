#pragma once
/// A smaller problem for choices that repeat: nodes of one group choose the same strategy.
#include <optional>
#include <vector>

#include "src/ilp/model/problem.h"

namespace alpa::ilp {

struct Folded {
  Problem problem;
  std::vector<int> of_node;  ///< its node for each node of the unfolded problem

  /// The choice of the unfolded problem. Both problems give them the same cost and peak usage.
  std::vector<int> unfolded(const std::vector<int>& choice) const;
};

/// `groups` has a number per node, ascending from 0 at their first nodes; nodes of one group have
/// as many strategies. Nodes of copies are in no group (-1): copies are one where their shared
/// costs are alike, and their own otherwise. None if a shared cost would have a reader at its
/// source.
std::optional<Folded> fold(const Problem& problem, const std::vector<int>& groups);

}  // namespace alpa::ilp
