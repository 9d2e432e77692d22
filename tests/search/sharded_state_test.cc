// Optimizer state that is split over all devices, in plans with tensor parallelism.
#include <doctest/doctest.h>

#include "search/graphs.h"
#include "search/plans.h"
#include "src/search/sharding/auto_shard.h"

namespace sharded_state_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("a template splits optimizer state and sums of gradients over its tensor axis, too") {
  const Graph graph = mlp_graph({.layers = 3, .batch = 16, .width = 16, .num_micro_batches = 2});
  intra_op::AutoShardOptions options;
  options.allowed.optimizer_state = options.allowed.gradients = intra_op::Holding::split;
  for (const AxisUse data : {AxisUse::zero2, AxisUse::batch}) {
    options.allowed.axis_uses = {data, AxisUse::tensor};
    const DeviceMesh mesh = priced_mesh({2, 2}, {1e-6, 1e-6}, {1e-9, 1e-9});
    const ShardingPlan plan = intra_op::auto_shard(graph, mesh, cost::CostModel{}, options);
    int states = 0;
    for (const Input& input : graph.inputs) {
      const TensorType& type = graph.type(input.value);
      const bool sum = input.kind == InputKind::accumulator && type.rank() > 0;
      if (!sum && input.of.empty()) continue;
      CAPTURE(input.name);
      CHECK(4 * shard_bytes(type, plan.specs[input.value], mesh) == type.bytes());
      ++states;
    }
    CHECK(states == 6 * 3);  // of a kernel and a bias of each layer
  }
}

}  // namespace sharded_state_test
