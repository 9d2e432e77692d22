#pragma once
/// Readers of values. Uses in one phase can read the same copy of a value: a graph with several
/// micro-batches has two phases (accumulate: once per micro-batch; apply), any other has one.
#include <vector>

#include "alpa/plan/sharding_plan.h"
#include "src/plan/facts/node_classes.h"

namespace alpa::intra_op {

struct Use {
  UseId id;
  int operand = -1;   ///< of a node; -1 for other kinds
  int phase = 0;      ///< 0 accumulate, 1 apply
  int runs = 1;       ///< per step
  int copy_runs = 1;  ///< the least that a copy of the value is made per step
  /// the value in whose spec this use finds its value: itself, or its accumulator
  int source = -1;
};

/// True if the resharded copy is loop-invariant: made once per step, read per micro-batch.
inline bool may_be_made_once(const Use& use) { return use.copy_runs < use.runs; }

/// Phase of a use: 1 if it happens once per step although there are several micro-batches, else 0.
int phase_of_use(const Graph& graph, UseId use);

/// The value in whose spec `use` finds `value`; `accumulators` as
/// accumulators_of_values gives them.
int source_of_use(const Graph& graph, const std::vector<int>& accumulators, int value, UseId use);

/// Per value, its uses by ascending id and operand.
/// `copies_once`: plans may make copies of state once per step.
std::vector<std::vector<Use>> uses_of_values(const Graph& graph, bool copies_once = false);

/// "einsum "dense0/einsum"", "the update of "dense0.kernel"", "metric "loss"", "output "h"".
std::string use_text(const Graph& graph, UseId use);

}  // namespace alpa::intra_op
