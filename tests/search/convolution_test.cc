// Convolutional networks: objectives and collectives of Alpa's tests (alpa.md 2.4), with its cost
// model of communication alone. Ours may be less, never more.
#include <doctest/doctest.h>

#include "alpa/nn/vision.h"
#include "alpa/optim/sgd.h"
#include "search/gpt_plans.h"
#include "search/plans.h"
#include "src/spmd/program.h"
#include "support/communication_only.h"
#include "support/unrepeated.h"

namespace convolution_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Layers of a 3 x 3 convolution of stride 2, batch normalisation, ReLU and a 2 x 2 pooling.
Graph network(int layers, std::int64_t batch, std::int64_t image, std::int64_t channels) {
  const TensorType x{f32, {batch, image, image, channels}};
  TensorType y = x;
  for (int layer = 0; layer < layers; ++layer) y.shape[1] = y.shape[2] = (y.shape[1] + 1) / 2;
  return training_step(
             {{"x", x}, {"y", y}},
             [=](const Batch& b) -> LossAndMetrics {
               Value h = b["x"];
               for (int layer = 0; layer < layers; ++layer) {
                 h = nn::Conv2d(channels, {3, 3}, {.stride = {2, 2}, .bias = false})(h);
                 h = relu(nn::BatchNorm()(h));
                 h = nn::MaxPool{{2, 2}, {1, 1}, nn::Padding::same}(h);
               }
               return mean(square(h - b["y"]));
             },
             optim::Sgd{.learning_rate = 0.1, .momentum = 0.9})
      .trace(1);
}

ShardingPlan plan_of(const Graph& graph, const DeviceMesh& mesh,
                     const intra_op::AutoShardOptions& options) {
  ShardingPlan plan = plan_without_repeats(
      graph, mesh, alpa::testing::communication_only({.tie_break_tails = true}), options);
  verify(plan, graph);
  return plan;
}

std::map<std::string, Traffic> program_traffic(const Graph& graph, const ShardingPlan& plan) {
  return spmd::traffic(
      spmd::bucket_collectives(spmd::fuse_elementwise(spmd::partition(graph, plan)),
                               std::int64_t{1} << 30, std::int64_t{1} << 30));
}

/// Of the gradients and the loss; of a normalisation's sums in forward, and in backward.
constexpr std::int64_t kAlpaAllReduces = 1 + 2 * 3;

}  // namespace

TEST_CASE("three convolutions on four devices cost no more than Alpa's plan") {
  const Graph graph = network(3, 16, 16, 4);
  for (const std::vector<int>& shape : {std::vector<int>{4, 1}, {1, 4}}) {
    const ShardingPlan plan = plan_of(graph, priced_mesh(shape), {});
    CHECK(plan.cost.gap() == 0);
    CHECK(plan.cost.objective_seconds <= 3108.21);
    const std::map<std::string, Traffic> sent = program_traffic(graph, plan);
    CHECK(sent.size() == 1);
    CHECK(sent.at("all_reduce").count <= kAlpaAllReduces);
  }
}

TEST_CASE("data parallelism of batch normalisation reduces twice a layer, as in Alpa's plan") {
  const Graph graph = network(3, 16, 16, 4);
  const Cluster cluster = gpu_cluster(1, 4);
  const ShardingPlan like_alpa =
                         plan_of(graph, priced_mesh({4}), intra_op::data_parallel_options()),
                     real = intra_op::auto_shard(graph, cluster.mesh({4}),
                                                 cost::CostModel::of(cluster),
                                                 intra_op::data_parallel_options());
  CHECK(like_alpa.cost.objective_seconds <= 3108.21 * 1.05);
  for (const ShardingPlan* plan : {&like_alpa, &real}) {
    const std::map<std::string, Traffic> sent = program_traffic(graph, *plan);
    CHECK(sent.size() == 1);
    CHECK(sent.at("all_reduce").count <= kAlpaAllReduces);
  }
}

TEST_CASE("ZeRO-2 of batch normalisation all-reduces its sums alone, as in Alpa's plan") {
  const Graph graph = network(3, 16, 16, 4);
  const ShardingPlan plan = plan_of(graph, priced_mesh({4}), intra_op::zero2_options());
  const std::map<std::string, Traffic> sent = program_traffic(graph, plan);
  CHECK(sent.at("all_reduce").count <= 2 * 3);  // the loss goes along
  CHECK(sent.at("reduce_scatter").count == 1);
  CHECK(sent.at("all_gather").count <= 2);
}

}  // namespace convolution_test
