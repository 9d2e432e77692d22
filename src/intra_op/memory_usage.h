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
              const MemoryLimit& limit);

  /// True if the value, or a copy of it, could take a share of the limit worth counting.
  bool matters(int value) const;
  /// Usages of the results of a node, per strategy: to their last use; but only while the node runs if they
  /// may be partial, because then what readers want lives on.
  std::vector<ilp::Usage> of_results(int node);
  /// Usages of reading a value that may be partial, per strategy of the reader: of what it wants, from when
  /// that can be there. Specs in `copied` are counted by their copies.
  std::vector<ilp::Usage> of_reading(int value, const std::vector<int>& wanted,
                                     const std::vector<int>& copied, const Use& use);
  /// Usages of a copy, per state; `uses` are those that could read it.
  std::vector<ilp::Usage> of_copy(int value, int spec, const std::vector<CopyState>& states,
                                  const std::vector<Use>& uses);
  const MemoryLimit& limit() const { return limit_; }
  /// What is left of the limit for what matters.
  std::int64_t room() const;

 private:
  std::int64_t bytes_of(int type, int spec);
  bool may_be_partial(int value) const;
  LivePoints range_of(int value, const std::vector<Use>& uses) const;

  const Graph& graph_;
  const SearchSpace& space_;
  const DeviceMesh& mesh_;
  MemoryLimit limit_;
  std::vector<LivePoints> ranges_;
  std::vector<int> points_;  ///< per node
  std::map<std::pair<int, int>, std::int64_t> bytes_;
};

}  // namespace alpa
