#pragma once
/// Stages of a pipeline in a training graph: every node on the stage that runs it.
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// `graph` with the stage of every node in `Node::layer`. Forward and backward nodes of layer l
/// are on stage `stage_of_layer[l]`. Forward nodes of no layer are on the last stage of their
/// operands; if these have none, where they are read first. Backward nodes of no layer are on the
/// first stage that sends them a gradient; if none does, on the last one of their operands.
/// State is where forward nodes first read it, its update and its optimizer state beside it.
/// What joins several stages once per step, such as the norm of all gradients, is on their last
/// one. Constants are made again on every stage that reads them. Throws Error if a forward node
/// reads a value of a later stage, or a backward node a gradient of an earlier one.
Graph with_stages(Graph graph, const std::vector<int>& stage_of_layer);

/// `with_stages` with a stage per layer.
Graph with_stage_per_layer(Graph graph);

/// Number of layers: one more than the largest number of a forward node, at least 1.
int num_layers(const Graph& graph);

}  // namespace alpa
