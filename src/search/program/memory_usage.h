#pragma once
/// Bytes that nodes and copies keep live, as usages for the solver. Values too small to matter
/// have no usages; the limit is lowered by the most they could take together, so that a plan
/// within the limit fits the budget. What other micro-batches in flight keep is used all the time.
#include <map>
#include <vector>

#include "src/ilp/solve.h"
#include "src/search/program/instance.h"

namespace alpa::intra_op {

class MemoryUsage {
 public:
  MemoryUsage(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
              const MemoryLimit& limit);

  /// True if the value, or a copy of it, could take a notable share of the limit.
  bool matters(int value) const;
  /// Usages of a node's results, per strategy. A result lives to its last use. A result
  /// that may be partial lives only while the node runs: the copies that readers need
  /// are counted by `of_reading`.
  std::vector<ilp::Usage> of_results(int node);
  /// Usages of the operand of a reader of a value that may be partial, per strategy of the
  /// reader, from the earliest point at which the operand can exist. Specs in `copied` are
  /// counted by their copies instead.
  std::vector<ilp::Usage> of_reading(int value, const std::vector<int>& wanted,
                                     const std::vector<int>& copied, const Use& use);
  /// Usages of a copy, per state; `uses` are the uses that could read it.
  std::vector<ilp::Usage> of_copy(int value, int spec, const std::vector<CopyState>& states,
                                  const std::vector<Use>& uses);
  const MemoryLimit& limit() const { return limit_; }
  /// The part of the limit left for values that matter.
  std::int64_t room() const;

 private:
  std::int64_t bytes_of(int type, int spec);
  bool is_state(int value) const;
  bool may_be_partial(int value) const;
  void add(std::vector<ilp::Usage>& usages, ilp::Usage usage, bool kept) const;
  bool is_between_passes(int from, int to) const;
  bool spans_passes(int from, int to) const;
  std::int64_t bytes_in_flight(int value) const;
  LivePoints range_of(int value, const std::vector<Use>& uses) const;

  const Graph& graph_;
  const SearchSpace& space_;
  const DeviceMesh& mesh_;
  MemoryLimit limit_;
  const std::vector<LivePoints>& ranges_;
  const std::vector<int>& points_;  ///< per node
  const int backward_, apply_;      ///< the first nodes of these regions
  /// Per value, whether every micro-batch has its own, and makes its own copies.
  const std::vector<bool> kept_, copied_;
  const std::vector<bool> sent_;  ///< per value, as `sent_values` gives them
  std::map<std::pair<int, int>, std::int64_t> bytes_;
};

/// The error text of a budget that no plan fits: by how many bytes it is missed, at which node, the
/// largest tensors there, the bytes of the smallest plan found (0: none), and what would help.
std::string memory_error(const ilp::Infeasible& infeasible, const Graph& graph,
                         const SearchSpace& space, const DeviceMesh& mesh,
                         const AutoShardOptions& options, std::int64_t smallest);

}  // namespace alpa::intra_op
