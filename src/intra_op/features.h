#pragma once
#include <cstdint>
#include <vector>

#include "node_classes.h"

namespace alpa {

/// Factors of one node that a tensor-parallel axis may split (bit f: factor f).
struct NodeFeatures {
  std::uint64_t factors = 0;
  bool must = false;  ///< one of them is split: they are features. Else they are tokens, which may be.
};

/// What tensor parallelism over `parts` devices splits, per node, after Megatron-LM (arXiv 1909.08053) and
/// its sequence parallelism (arXiv 2205.05198). Features are dimensions of parameters, followed through
/// the rules, of which nearly every product has one and which leave few bytes of partial results. For a
/// transformer: heads, hidden features of the MLP, the vocabulary. Tokens are the other dimensions of batch
/// inputs, except the batch; nodes without features may split them. `batch`: see batch_factors.h.
std::vector<NodeFeatures> features_of(const Graph& graph, const NodeClasses& classes, int parts,
                                      const std::vector<int>& batch);

}  // namespace alpa
