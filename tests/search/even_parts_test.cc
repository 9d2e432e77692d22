// What every device takes of an even part of an operator bounds all of its strategies.
#include <doctest/doctest.h>

#include <algorithm>

#include "alpa/alpa.h"
#include "search/plans.h"
#include "src/plan/facts/node_classes.h"
#include "src/search/space/search_space.h"
#include "support/planning_suite.h"

namespace even_parts_test {

using namespace alpa;
using testing::priced_mesh;

namespace {

/// With rates by size, some of which are above those of the whole.
Cluster profiled() {
  Cluster cluster = Cluster::local(2);
  cluster.device.launch_seconds = 1e-7;
  cluster.device.measured.products[f32] = {{16, 64}, {1e9, 2e9, 3e9, 9e9, 2e9, 5e9, 8e9, 4e9}};
  cluster.device.measured.loop_bytes = {1 << 10, 1 << 20};
  cluster.device.measured.loop_bytes_per_second = {5e10, 1e10};
  return cluster;
}

Graph convolutions() {
  return training_step(
             {{"x", {f32, {8, 16, 16, 3}}}},
             [](const Batch& batch) {
               const nn::Conv2d layer(12, {3, 3});
               return mean(square(layer(batch["x"])));
             },
             optim::Adam{})
      .trace(2);
}

}  // namespace

TEST_CASE("no strategy takes less than an even part of the work of its node") {
  for (const Cluster& cluster : {Cluster::named("dgx-a100"), profiled()})
    for (const char* model : {"residual-mlp", "gpt", "moe", "convolutions"})
      for (const std::vector<int>& sizes : {std::vector{8}, {2, 4}, {3}, {2, 2, 2}}) {
        CAPTURE(model);
        const DeviceMesh mesh = priced_mesh(sizes);
        CAPTURE(mesh.num_devices());
        const bool suite = std::string_view(model) != "convolutions";
        const Graph graph =
            suite ? testing::suite_step(model, testing::tiny_shape(2)).trace(2) : convolutions();
        const cost::CostModel costs = cost::CostModel::of(cluster);
        const intra_op::AutoShardOptions options;
        intra_op::PlanningCache cache;
        const intra_op::SearchSpace space =
            intra_op::search_space(graph, options, cache.of(mesh, costs));
        const intra_op::NodeClasses classes = intra_op::classify(graph);
        double even = 0, least = 0;
        for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
          CAPTURE(graph.nodes[n].name);
          const cost::LeastSeconds part = intra_op::least_node_seconds(
              classes.of(n), classes.share_of(n), mesh.num_devices(), costs);
          const double seconds = part.shared / mesh.num_devices() + part.own;
          const std::vector<double>& priced = space.of(n).seconds;
          const double cheapest = *std::min_element(priced.begin(), priced.end());
          CHECK(seconds <= cheapest * (1 + 1e-9));
          even += seconds, least += cheapest;
        }
        CHECK(even > (cluster.device.measured.products.empty() ? 0.4 : 0.01) * least);
      }
}

}  // namespace even_parts_test
