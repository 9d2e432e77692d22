#pragma once
/// Finds the batch factor of every node: dimension 0 of the batch inputs, followed through the
/// index rules of all nodes, forward and backward (in xᵀ·dy the batch is the summed factor).
#include <map>
#include <string>
#include <vector>

#include "src/plan/facts/node_classes.h"

namespace alpa::intra_op {

/// Per node the factor of its rule that is the batch, -1 if it has none. `boundary_dims`: of
/// boundary inputs, by name, the dimension that is the batch.
std::vector<int> batch_factors(const Graph& graph, const NodeClasses& classes,
                               const std::map<std::string, int>& boundary_dims = {});

/// The same of tokens: the dimension behind the batch, where it has one.
std::vector<int> token_factors(const Graph& graph, const NodeClasses& classes,
                               const std::map<std::string, int>& boundary_dims = {});

/// Per value the dimension whose major part is the batch, -1 if none is.
std::vector<int> batch_dims(const Graph& graph,
                            const std::map<std::string, int>& boundary_dims = {});

}  // namespace alpa::intra_op
