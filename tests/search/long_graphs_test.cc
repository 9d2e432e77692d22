// Work of planning along equal layers: no size of a graph switches to a method that takes more.
#include <doctest/doctest.h>

#include "alpa/models/moe.h"
#include "alpa/nn/layers.h"
#include "alpa/nn/loss.h"
#include "alpa/nn/sequential.h"
#include "alpa/parallelize.h"
#include "search/gpt_plans.h"
#include "support/planning_suite.h"

namespace long_graphs_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Work per layer may grow by this factor from one size to the next.
constexpr double kGrowth = 1.5;

/// A perceptron as a user writes it: its layers are not marked.
TrainingStep perceptron(int layers) {
  nn::Sequential model;
  for (int i = 0; i < layers; ++i) model.add(nn::Dense(1024)).add(nn::ReLU());
  const TensorType type{f32, {1024, 1024}};
  return training_step(
      {{"x", type}, {"y", type}},
      [model](const Batch& batch) { return nn::mean_squared_error(model(batch["x"]), batch["y"]); },
      optim::Adam{});
}

/// Every second block a mixture of experts, the embedding tied to the head: too wide to be
/// eliminated.
TrainingStep experts(int layers) {
  models::MoeDecoderOptions options;
  options.layers = layers, options.sequence = 256, options.hidden = 1024, options.heads = 16;
  const TensorType tokens{i32, {64, 256}};
  return training_step(
      {{"x", tokens}, {"y", tokens}},
      [model = models::MoeDecoder(options)](const Batch& b) { return model.loss(b["x"], b["y"]); },
      optim::Adam{});
}

ShardingPlan planned(const TrainingStep& step, const std::vector<int>& shape) {
  const Cluster cluster =
      shape.size() == 1 ? gpu_cluster(1, shape[0]) : gpu_cluster(shape[0], shape[1]);
  return intra_op::auto_shard(step.trace(1), cluster.mesh(shape), cost::CostModel::of(cluster), {});
}

/// Plans the step at each number of layers and compares the work per layer with that of the size
/// before.
template <class StepOf>
void check_growth(const StepOf& step_of, const std::vector<int>& sizes,
                  const std::vector<int>& shape) {
  double before = 0;
  for (int layers : sizes) {
    CAPTURE(shape.size());
    CAPTURE(layers);
    const ShardingPlan plan = planned(step_of(layers), shape);
    const double work = plan.statistics.solve_seconds / layers;
    CHECK(plan.cost.gap() <= 0.005);
    CHECK(work > 0);
    if (before > 0) CHECK(work <= kGrowth * before);
    before = work;
  }
}

}  // namespace

TEST_CASE("unmarked layers: the work of planning one does not grow with their number") {
  for (const std::vector<int>& shape : {std::vector<int>{8}, {2, 4}, {8, 8}})
    check_growth(perceptron, {64, 128, 192, 384}, shape);
}

TEST_CASE("marked layers of one axis, a hundred and more: tables of layers take no more for more") {
  check_growth(experts, {32, 96}, {8});
}

TEST_CASE(
    "wide layers: the templates of 32 are skipped as those of 16 are, and the gap is as small") {
  check_growth(experts, {16, 32}, {8, 8});
}

TEST_CASE("192 unmarked layers on 8x8 are proven, by the same reductions as 128") {
  const ShardParallel method{.mesh_shape = {8, 8}};
  for (int layers : {128, 192}) {
    CAPTURE(layers);
    const CompiledStep step = plan_only(perceptron(layers), method, gpu_cluster(8, 8));
    CHECK(step.plan.cost.gap() == 0);
    CHECK(step.plan.sharding().statistics.variables == 0);
  }
}

}  // namespace long_graphs_test
