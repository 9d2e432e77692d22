// Muon's products as the planner divides them, against the ways that other systems have: every
// device computes whole matrices from gathered gradients, products are divided, or each device owns
// some of the matrices (a stack of them is divided).
#include <doctest/doctest.h>

#include "alpa/optim/muon.h"
#include "alpa/train/training_step.h"
#include "search/gpt_plans.h"
#include "src/ops/all_ops.h"

namespace muon_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Four products of x [B, width], by a kernel each, or by a stack of four.
Graph trained_by_muon(std::int64_t batch, std::int64_t width, bool stacked) {
  return training_step(
             {{"x", {f32, {batch, width}}}},
             [=](const Batch& b) {
               const auto kernel = [&](const std::string& name, const Shape& shape) {
                 return b.builder().parameter(name, {f32, shape}, Initializer::normal(0, 0.02));
               };
               Value x = b["x"];
               const Value stack = stacked ? kernel("stack", {4, width, width}) : Value{};
               for (int layer = 0; layer < 4; ++layer) {
                 const Value w = stacked
                                     ? reshape(slice(stack, 0, layer, layer + 1), {width, width})
                                     : kernel(std::to_string(layer), {width, width});
                 x = tanh(matmul(x, w));
               }
               return mean(square(x));
             },
             optim::Muon{})
      .trace(1);
}

/// Every product of the update leaves its result in `spec`.
intra_op::AutoShardOptions products_in(const Graph& graph, const std::string& spec) {
  intra_op::AutoShardOptions options;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    if (graph.nodes[n].op == &ops::einsum && graph.nodes[n].region == Region::apply)
      options.allowed.pins.push_back({n, parse_spec(spec)});
  return options;
}

}  // namespace

TEST_CASE("no way of dividing Muon's products that is prescribed is cheaper than the plan's") {
  const Cluster cluster = gpu_cluster(1, 4);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const DeviceMesh mesh = cluster.mesh({4});
  for (const auto& [batch, width] : {std::pair{64, 256}, {1024, 1024}, {256, 4096}})
    for (const bool stacked : {false, true}) {
      CAPTURE(width);
      CAPTURE(stacked);
      const Graph graph = trained_by_muon(batch, width, stacked);
      const double planned = seconds_of(graph, mesh, model, {});
      int dearer = 0;
      for (const std::string spec : {"R", "S0@0", "S1@0", "S2@0"}) {
        if (!stacked && spec == "S2@0") continue;
        CAPTURE(spec);
        const double prescribed = seconds_of(graph, mesh, model, products_in(graph, spec));
        CHECK(planned <= prescribed * (1 + 1e-6));
        dearer += planned < prescribed * (1 - 1e-3);
      }
      CHECK(dearer > 0);
    }
}

}  // namespace muon_test
