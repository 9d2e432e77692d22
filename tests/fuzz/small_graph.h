#pragma once
/// The graph whose text and plans are seeds.
#include <alpa/ir/graph.h>

namespace alpa::fuzz {

/// A training step of two layers on a batch of 8.
Graph small_graph();

/// The same step with Adam and two micro-batches.
Graph adam_graph();

}  // namespace alpa::fuzz
