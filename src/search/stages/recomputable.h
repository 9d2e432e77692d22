#pragma once
/// A step of which any layers may be computed again, for bounds on all such choices at once.
#include <vector>

#include "alpa/ir/graph.h"
#include "src/plan/cost/cost_model.h"

namespace alpa::inter_op {

/// Bytes of a micro-batch that a backward run finds kept, or computes again.
struct RecomputableBytes {
  std::vector<double> of_layers;  ///< by layer; of all devices together
  double seconds_per_byte = 0;    ///< of one device, at least, to compute a byte again
};

/// A step as it is whatever layers are computed again.
struct RecomputableStep {
  /// Without what is computed again: gradients read boundary inputs in its place, whose layout is
  /// free.
  Graph graph;
  RecomputableBytes bytes;
};

/// `graph` computes all layers again that may be. Devices: the most of a stage.
RecomputableStep recomputable(const Graph& graph, int devices, const cost::CostModel& model);

}  // namespace alpa::inter_op
