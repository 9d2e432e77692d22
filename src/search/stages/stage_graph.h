#pragma once
/// The graph of a step whose nodes are on the stages of a pipeline.
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// `with_stages` (ir/stages.h), in which every stage adds up what it makes of a gradient. Where
/// micro-batches add contributions of several stages to one accumulator, as those of tied weights,
/// the other stages get accumulators of their own, named "<accumulator>.stage<s>". Their sums are
/// added to that of the first in region apply: they cross once per step. Contributions narrower
/// than the accumulator are added up in its type.
Graph stage_graph(const Graph& graph, const std::vector<int>& stage_of_layer);

}  // namespace alpa
