// Rounds over the meshes: what they tell, what they drop, when they end, and that
// the clock decides nothing.
#include <doctest/doctest.h>

#include <atomic>

#include "alpa/parallelize.h"
#include "search/gpt_plans.h"
#include "src/base/work.h"
#include "support/busy_thread.h"
#include "support/error_text.h"

namespace planning_rounds_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Fixture {
  Cluster cluster = gpu_cluster(2, 4);
  cost::CostModel model = cost::CostModel::of(cluster);
  Graph graph = gpt_graph({.layers = 1});

  std::vector<DeviceMesh> meshes() const { return {cluster.mesh({4, 2}), cluster.mesh({2, 4})}; }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "progress never gets worse and ends with the plan") {
  std::vector<PlanningProgress> told;
  intra_op::AutoShardOptions options;
  options.progress = [&](const PlanningProgress& progress) { told.push_back(progress); };
  const ShardingPlan plan = intra_op::auto_shard(graph, meshes(), model, options);
  REQUIRE(told.size() > 2);
  for (std::size_t k = 1; k < told.size(); ++k) {
    const PlanningProgress &now = told[k], &before = told[k - 1];
    CHECK(now.best_seconds <= before.best_seconds);
    CHECK(now.lower_bound_seconds >= before.lower_bound_seconds);
    CHECK((now.best_seconds < before.best_seconds ||
           now.lower_bound_seconds > before.lower_bound_seconds));
    CHECK(now.elapsed_seconds >= before.elapsed_seconds);
    CHECK(now.lower_bound_seconds <= plan.cost.objective_seconds * (1 + 1e-6));
  }
  CHECK(told.back().best_seconds == doctest::Approx(plan.cost.objective_seconds));
  CHECK(told.back().lower_bound_seconds == doctest::Approx(plan.cost.lower_bound_seconds));
  CHECK(told.back().gap() == doctest::Approx(plan.cost.gap()));
  CHECK(told.back().mesh == shape_text(plan.mesh));
  CHECK(!told.back().bytes);
}

TEST_CASE("under a budget, progress begins again with the plans that keep it") {
  const TrainingStep step =
      gpt_step({.layers = 1, .batch = 8, .sequence = 32, .hidden = 128, .heads = 4});
  ShardParallel method{.mesh_shape = {4}, .relative_gap = 0.3};  // a smaller one is long sought
  const std::int64_t free = plan_only(step, method, gpu_cluster(1, 4)).memory_bytes;
  std::vector<PlanningProgress> told;
  method.memory_budget_bytes = free - 1;
  method.progress = [&](const PlanningProgress& progress) { told.push_back(progress); };
  const CompiledStep planned = plan_only(step, method, gpu_cluster(1, 4));
  REQUIRE(!told.empty());
  CHECK(!told.front().bytes);
  REQUIRE(told.back().bytes);
  CHECK(*told.back().bytes <= *method.memory_budget_bytes);
  CHECK(told.back().best_seconds == doctest::Approx(planned.plan.cost.objective_seconds));
}

TEST_CASE_FIXTURE(Fixture, "planning ends when its own callback says stop") {
  std::atomic<bool> stop = false;
  int calls = 0;
  intra_op::AutoShardOptions options;
  options.limits.seconds = 1e6;
  options.limits.stop = &stop;
  options.progress = [&](const PlanningProgress&) { stop = ++calls > 0; };
  const ShardingPlan plan = intra_op::auto_shard(graph, meshes(), model, options);
  verify(plan, graph);
  CHECK(plan.cost.gap() > 0.01);
}

TEST_CASE("planning that ends in its first search keeps a bound of the other meshes") {
  const Cluster cluster = gpu_cluster(8, 8);  // tables too large for a look at each mesh
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph = gpt_graph({.layers = 12});
  const std::vector<DeviceMesh> meshes = {cluster.mesh({8, 8}), cluster.mesh({16, 4})};
  const WorkWatch watch;
  intra_op::auto_shard(graph, meshes[0], model, {});
  intra_op::AutoShardOptions options;
  options.limits.seconds = 0.35 * watch.seconds();
  const ShardingPlan ended = intra_op::auto_shard(graph, meshes, model, options);
  CHECK(ended.mesh == meshes[0]);
  CHECK(ended.cost.gap() < 0.5);  // 0.74 if any plan of the second mesh could be
}

TEST_CASE_FIXTURE(Fixture, "a plan depends on work alone: a busy machine changes nothing") {
  for (const auto& [seconds, gap] : {std::pair{100.0, 0.0}, {100.0, 0.3}, {0.05, 0.0}}) {
    CAPTURE(seconds);  // proven; the first that is good enough; ended by the limit
    intra_op::AutoShardOptions options;
    options.limits.relative_gap = gap;
    options.limits.seconds = seconds;
    const ShardingPlan plan = intra_op::auto_shard(graph, meshes(), model, options);
    CHECK((plan.cost.gap() > 1e-6) == (seconds < 1));
    const BusyThread busy;
    CHECK(to_json(intra_op::auto_shard(graph, meshes(), model, options), graph) ==
          to_json(plan, graph));
  }
}

TEST_CASE_FIXTURE(Fixture, "the clock ends planning, whatever its work") {
  intra_op::AutoShardOptions options;
  options.limits.seconds = 1e6;
  options.limits.clock_seconds = 0.02;
  options.limits.relative_gap = 0;
  const ShardingPlan plan = intra_op::auto_shard(graph, meshes(), model, options);
  verify(plan, graph);
  CHECK(plan.cost.gap() > 0);
}

TEST_CASE_FIXTURE(Fixture, "a gap that is good enough ends planning") {
  intra_op::AutoShardOptions options;
  options.limits.seconds = 1e6;  // a proof would take far longer
  options.limits.relative_gap = 0.01;
  const ShardingPlan plan =
      intra_op::auto_shard(gpt_graph({.layers = 8}), cluster.mesh({2, 4}), model, options);
  CHECK(plan.cost.gap() <= 0.01);
}

TEST_CASE_FIXTURE(Fixture, "a gap of everything is an error") {
  intra_op::AutoShardOptions options;
  options.limits.relative_gap = 1;
  CHECK(error_of([&] { intra_op::auto_shard(graph, meshes(), model, options); }) ==
        "auto_shard: relative_gap is 1; give at least 0 and less than 1");
}

}  // namespace planning_rounds_test
