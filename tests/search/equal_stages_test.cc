// Stages that are equal are planned once, and the plan is the one that each would have alone.
#include "src/search/stages/equal_stages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "src/search/stages/stage_meshes.h"
#include "support/planning_suite.h"

namespace equal_stages_test {

using namespace alpa;

namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Equal layers, one a stage, each stage on a host of four devices.
struct Stages {
  explicit Stages(int count)
      : graph(testing::suite_step(
                  "gpt",
                  {.stack =
                       {.layers = count, .batch = 32, .sequence = 16, .hidden = 128, .heads = 4}})
                  .trace(4)),
        cluster(Cluster::local(4)),
        plans(count) {
    cluster.num_hosts = count;
    for (int s = 0; s < count; ++s) {
      plans[s].first_layer = plans[s].last_layer = s;
      std::vector<int> devices(4);
      std::iota(devices.begin(), devices.end(), 4 * s);
      meshes.push_back(logical_meshes(cluster, {1, 4}, devices));
    }
    batch_dims = cut_into_stages(graph, plans);
  }

  StageToPlan question(int s, StageLimit limit = {kNoLimit, 1}) const {
    return {plans[s].graph, meshes[s], limit, batch_dims[s]};
  }

  ShardingPlan planned(int s) const {
    const cost::CostModel model = cost::CostModel::of(cluster);
    intra_op::AutoShardOptions options;
    options.part.whole_boundary_inputs = true;
    options.part.boundary_batch_dims = batch_dims[s];
    intra_op::PlanningCache cache;
    return plan_stage(plans[s].graph, meshes[s], {kNoLimit, 1}, {model, options, cache});
  }

  Graph graph;
  Cluster cluster;
  std::vector<StagePlan> plans;
  std::vector<std::vector<DeviceMesh>> meshes;
  std::vector<BoundaryBatchDims> batch_dims;
};

}  // namespace

TEST_CASE("of 64 equal layers, a stage each, three stages are planned: first, last, one between") {
  const Stages stages(64);
  std::vector<int> kinds;  // the first stage of each
  for (int s = 0; s < 64; ++s) {
    const bool known = std::any_of(kinds.begin(), kinds.end(), [&](int kind) {
      return are_equal(stages.question(kind), stages.question(s));
    });
    if (!known) kinds.push_back(s);
  }
  CHECK(kinds == std::vector<int>{0, 1, 63});
}

TEST_CASE("the plan of an equal stage is the stage's own, on its devices") {
  const Stages stages(5);
  const ShardingPlan first = stages.planned(1);
  EqualStages equal;
  equal.add(stages.question(1), first);
  CHECK(!equal.find(stages.question(0)));
  CHECK(!equal.find(stages.question(4)));
  const std::optional<ShardingPlan> found = equal.find(stages.question(3));
  REQUIRE(found);
  const ShardingPlan own = stages.planned(3);
  CHECK(found->mesh == own.mesh);
  CHECK(found->mesh.devices().front() == 12);
  CHECK(found->strategies == own.strategies);
  CHECK(found->specs == own.specs);
  CHECK(found->cost.objective_seconds == own.cost.objective_seconds);
}

TEST_CASE("stages with another limit, other links or another batch dimension are not equal") {
  Stages stages(4);
  const auto equal = [&](StageLimit a, StageLimit b) {
    return are_equal(stages.question(1, a), stages.question(2, b));
  };
  CHECK(equal({kNoLimit, 1}, {kNoLimit, 3}));  // nothing is limited
  CHECK(equal({1000, 2}, {1000, 2}));
  CHECK(!equal({1000, 2}, {1000, 3}));
  CHECK(!equal({1000, 2}, {2000, 2}));
  Stages others(4);
  for (auto& [name, dim] : others.batch_dims[2]) dim += 1;
  CHECK(!are_equal(stages.question(1), others.question(2)));
  stages.cluster.within_host.alpha_seconds *= 2;
  stages.meshes[2] = logical_meshes(stages.cluster, {1, 4}, {8, 9, 10, 11});
  CHECK(!equal({kNoLimit, 1}, {kNoLimit, 1}));
}

}  // namespace equal_stages_test
