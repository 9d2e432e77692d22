#pragma once
/// Who reads a value. Uses in one phase can read the same copy of it: a graph with several micro-batches
/// has two phases (accumulate: once per micro-batch; apply), any other has one.
#include <vector>

#include "alpa/intra_op/plan.h"
#include "node_classes.h"

namespace alpa {

struct Use {
  int id = -1;       ///< as numbered in plan.h
  int operand = -1;  ///< of a node; -1 for updates and metrics
  int phase = 0;     ///< 0 accumulate, 1 apply
  int runs = 1;      ///< per step
};

/// Per value, its uses by ascending id and operand.
std::vector<std::vector<Use>> uses_of_values(const Graph& graph);

/// Spec in which a use wants its value, if the nodes have these strategies.
ShardingSpec wanted_spec(const Graph& graph, const NodeClasses& classes,
                         const std::vector<Strategy>& strategies, const DeviceMesh& mesh, const Use& use);

/// "einsum "dense0/einsum"", "the update of "dense0.kernel"", "metric "loss"".
std::string use_text(const Graph& graph, int use);

}  // namespace alpa
