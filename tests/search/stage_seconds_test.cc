#include <cmath>

#include "src/plan/evaluation/stage_seconds.h"

#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "src/search/sharding/auto_shard.h"

namespace stage_seconds_test {

using namespace alpa;

namespace {

/// Two products of 64, split by rows over two devices: gradients are reduced after backward.
Graph graph_of_step() {
  const TensorType type{f32, {64, 64}};
  return training_step(
             {{"x", type}, {"y", type}},
             [](const Batch& batch) {
               nn::Sequential model{nn::Dense(64), nn::ReLU(), nn::Dense(64)};
               return nn::mean_squared_error(model(batch["x"]), batch["y"]);
             },
             optim::Sgd{})
      .trace(2);
}

StageSeconds seconds_with(const SoftwareModel& software) {
  Cluster cluster = Cluster::local(2);
  const Graph graph = graph_of_step();
  const ShardingPlan plan = intra_op::auto_shard(
      graph, cluster.mesh({2}), cost::CostModel::of(cluster), intra_op::data_parallel_options());
  cluster.software = software;
  return stage_seconds(plan, graph, cost::CostModel::of(cluster));
}

}  // namespace

TEST_CASE("a run takes at least the launches of its operators") {
  const StageSeconds plain = seconds_with({}), little = seconds_with({.operator_seconds = 1e-12}),
                     one = seconds_with({.operator_seconds = 1}),
                     two = seconds_with({.operator_seconds = 2});
  CHECK(little.forward == plain.forward);
  CHECK(little.backward == plain.backward);
  CHECK(one.forward >= 5);  // two products with sums of a bias, relu, and the loss
  CHECK(one.forward == std::floor(one.forward));
  CHECK(two.forward == 2 * one.forward);
  CHECK(two.backward == 2 * one.backward);
  CHECK(two.weights <= two.backward);
  CHECK(two.apply == plain.apply);
}

TEST_CASE("the last backward run hides reductions of gradients, but not more than it takes") {
  const StageSeconds plain = seconds_with({});
  const double hidden = plain.apply - seconds_with({.gradient_overlap = 1e-9}).apply;
  CHECK(hidden > 0);
  CHECK(seconds_with({.gradient_overlap = 1e-9}).backward == plain.backward);
  const double factor = 3 * plain.backward / hidden;
  CHECK(seconds_with({.gradient_overlap = factor}).apply ==
        doctest::Approx(plain.apply - hidden + 2 * plain.backward));
}

}  // namespace stage_seconds_test
