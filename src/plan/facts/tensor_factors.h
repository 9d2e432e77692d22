#pragma once
/// The dimensions that tensor parallelism splits, after Megatron-LM (arXiv 1909.08053) and its
/// sequence parallelism (arXiv 2205.05198). Features are dimensions of parameters, followed through
/// the rules of all nodes. Tokens are the dimensions of batch inputs except the batch.
#include <cstdint>
#include <vector>

#include "src/plan/facts/node_classes.h"

namespace alpa::intra_op {

/// Factors of one node that an axis of tensor parallelism may split (bit f: factor f).
struct TensorFactors {
  std::uint64_t factors = 0;
  /// they are features, one of which is split; false: tokens, which may be
  bool must_split = false;
};

/// Per node, the factor that is the experts of products with parameters; -1: none. Experts are
/// named by an operand of state, by the other operand and by the result. Nodes have them that hold
/// them in all tensors: tokens on their way to experts, or back, are those of the batch.
std::vector<int> expert_factors(const Graph& graph, const NodeClasses& classes);

/// Per node. Features with many bytes of partial results are left out, as long as the others split
/// nearly every product; rows of tables of tokens stay. For a transformer heads, hidden features of
/// the MLP and the vocabulary remain. Nodes without features may split tokens. `parts`: devices of
/// the axes; `batch`: see batch_factors.h; `experts`: per node a factor that is no feature, or -1.
std::vector<TensorFactors> tensor_factors(const Graph& graph, const NodeClasses& classes, int parts,
                                          const std::vector<int>& batch,
                                          const std::vector<int>& experts = {});

}  // namespace alpa::intra_op
