#pragma once
/// Bytes that nodes and copies make live, as usages of the solver. Values too small to matter have none;
/// the limit is lowered by what they could take together, so that a plan within the limit is within the
/// budget.
#include <map>
#include <vector>

#include "alpa/ilp/problem.h"
#include "instance.h"

namespace alpa {

class MemoryUsage {
 public:
  MemoryUsage(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
              std::int64_t budget_bytes);

  /// True if the value, or a copy of it, could take a share of the budget worth counting.
  bool matters(int value) const;
  /// Usages of the results of a node, per strategy.
  std::vector<ilp::Usage> of_results(int node);
  /// Usages of a copy, per state; `uses` are those that could read it.
  std::vector<ilp::Usage> of_copy(int value, int spec, const std::vector<CopyState>& states,
                                  const std::vector<Use>& uses);
  /// What is left of the budget for what matters.
  std::int64_t limit() const;

 private:
  std::int64_t bytes_of(int type, int spec);

  const Graph& graph_;
  const SearchSpace& space_;
  const DeviceMesh& mesh_;
  std::int64_t budget_;
  std::vector<LiveRange> ranges_;
  std::map<std::pair<int, int>, std::int64_t> bytes_;
};

}  // namespace alpa
