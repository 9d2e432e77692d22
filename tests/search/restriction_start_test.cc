// The best plan is never worse than data parallelism, ZeRO or the batch on
// one axis, whatever the time.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "alpa/base/error.h"
#include "search/gpt_plans.h"
#include "search/graphs.h"
#include "search/plans.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/program/assemble_plan.h"

namespace restriction_start_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

intra_op::AutoShardOptions within_seconds(double seconds) {
  intra_op::AutoShardOptions options;
  options.limits.seconds = seconds;
  return options;
}

/// Allows for the rounding of costs to nanoseconds.
constexpr double kRounding = 1 + 1e-4;

/// The plan as a choice of the strategies that `options` allow costs what the plan costs and uses
/// what the plan uses.
void check_choice(const ShardingPlan& plan, const Graph& graph, const cost::CostModel& model,
                  const intra_op::AutoShardOptions& options,
                  const std::optional<intra_op::MemoryLimit>& memory) {
  intra_op::PlanningCache cache;
  const intra_op::SearchSpace space =
      intra_op::search_space(graph, options, cache.of(plan.mesh, model));
  const intra_op::Instance instance = intra_op::build_instance(graph, space, plan.mesh, memory);
  const auto choice = intra_op::choice_of(plan, graph, space, instance);
  REQUIRE(choice.has_value());
  const ilp::Evaluation evaluation = ilp::evaluate(instance.problem, *choice);
  const double terms =
      static_cast<double>(instance.problem.nodes.size() + instance.problem.edges.size());
  CHECK(std::abs(static_cast<double>(evaluation.cost) / instance.units_per_second -
                 plan.cost.objective_seconds) <= terms / instance.units_per_second);
  if (memory) CHECK(evaluation.feasible);
}

}  // namespace

TEST_CASE("attention in a hurry costs no more than data parallelism and ZeRO") {
  const Cluster cluster = gpu_cluster(1, 8);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph = gpt_graph({.layers = 12});
  for (const std::vector<int>& shape : {std::vector<int>{8}, std::vector<int>{2, 4}}) {
    CAPTURE(shape.size());
    const DeviceMesh mesh = cluster.mesh(shape);
    const ShardingPlan plan = intra_op::auto_shard(graph, mesh, model, within_seconds(0.2));
    verify(plan, graph);
    CHECK(plan.cost.objective_seconds <= least_restricted_seconds(graph, mesh, model) * kRounding);
    CHECK(plan.cost.lower_bound_seconds > 0);
    CHECK(plan.cost.lower_bound_seconds <= plan.cost.objective_seconds);
  }
}

TEST_CASE("with some time, attention costs no more than with the batch forced onto any axis") {
  const Cluster cluster = gpu_cluster(1, 8);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph = gpt_graph({.layers = 1});  // so small that the restrictions are proven
  const DeviceMesh mesh = cluster.mesh({2, 4});
  double forced = std::numeric_limits<double>::infinity();
  for (int axis : {0, 1}) {
    intra_op::AutoShardOptions batch;
    batch.allowed.batch_mesh_axis = axis;
    forced = std::min(forced, seconds_of(graph, mesh, model, batch));
  }
  // A fraction of the short limit is enough for the restrictions, of the long
  // one on a busy machine, too.
  double seconds = seconds_of(graph, mesh, model, within_seconds(4));
  if (seconds > forced * kRounding) seconds = seconds_of(graph, mesh, model, within_seconds(40));
  CHECK(seconds <= forced * kRounding);
}

TEST_CASE("of several meshes the best plan is no worse than a restriction on any of them") {
  const Cluster cluster = gpu_cluster(2, 4);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph = gpt_graph({.layers = 4});
  std::vector<DeviceMesh> meshes;
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<int>& shape : logical_mesh_shapes(8)) {
    meshes.push_back(cluster.mesh(shape));
    least = std::min(least, least_restricted_seconds(graph, meshes.back(), model));
  }
  const ShardingPlan plan = intra_op::auto_shard(graph, meshes, model, within_seconds(2));
  CHECK(plan.cost.objective_seconds <= least * kRounding);
  CHECK(plan.cost.lower_bound_seconds <= plan.cost.objective_seconds);
}

TEST_CASE(
    "planning that is stopped before it starts still gives a plan no worse than the restrictions") {
  const Cluster cluster = gpu_cluster(1, 8);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph = gpt_graph({.layers = 4});
  const std::atomic<bool> stop = true;
  intra_op::AutoShardOptions options;
  options.limits.stop = &stop;
  const ShardingPlan plan = intra_op::auto_shard(graph, cluster.mesh({2, 4}), model, options);
  verify(plan, graph);
  CHECK(plan.cost.objective_seconds <=
        least_restricted_seconds(graph, cluster.mesh({2, 4}), model) * kRounding);
}

TEST_CASE("restrictions obey the options of the whole") {
  const Cluster cluster = gpu_cluster(1, 8);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph = gpt_graph({.layers = 2});
  intra_op::AutoShardOptions options = within_seconds(1);
  options.allowed.all_gather = options.allowed.all_to_all = false;
  const auto steps = count_steps(intra_op::auto_shard(graph, cluster.mesh({2, 4}), model, options));
  CHECK(steps.count("all_gather") + steps.count("all_to_all") == 0);
  intra_op::AutoShardOptions forced = within_seconds(1);
  forced.allowed.batch_mesh_axis = 1;
  const ShardingPlan plan = intra_op::auto_shard(graph, cluster.mesh({2, 4}), model, forced);
  CHECK(spec_of(plan, graph, "x").find("S0@1") != std::string::npos);
}

TEST_CASE(
    "a batch too small to be split over all devices leaves the other restrictions and the whole") {
  const Cluster cluster = gpu_cluster(1, 8);
  const Graph graph =
      gpt_graph({.layers = 2, .batch = 2, .sequence = 64, .hidden = 256, .heads = 4});
  const ShardingPlan plan = intra_op::auto_shard(graph, cluster.mesh({2, 4}),
                                                 cost::CostModel::of(cluster), within_seconds(1));
  verify(plan, graph);
}

TEST_CASE(
    "a plan of any restriction is a choice of all strategies at the same cost, with its bytes") {
  const Cluster cluster = gpu_cluster(1, 8);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const DeviceMesh mesh = cluster.mesh({2, 4});
  for (int micro_batches : {1, 3}) {
    const Graph mlp =
        mlp_graph({.layers = 3, .batch = 24, .width = 40, .num_micro_batches = micro_batches});
    const Graph gpt = gpt_step({.layers = 1, .batch = 24, .sequence = 16, .hidden = 64, .heads = 4})
                          .trace(micro_batches);
    for (const Graph* graph : {&mlp, &gpt}) {
      intra_op::AutoShardOptions batch = within_seconds(1);
      batch.allowed.batch_mesh_axis = 1;
      for (intra_op::AutoShardOptions options :
           {intra_op::data_parallel_options(), intra_op::zero2_options(), intra_op::zero3_options(),
            batch, within_seconds(0.2)}) {
        CAPTURE(options.method);
        options.limits.seconds = std::min(options.limits.seconds, 1.0);
        const ShardingPlan plan = intra_op::auto_shard(*graph, mesh, model, options);
        // Copies of state that are made once per step are choices of ZeRO-3 alone.
        const intra_op::AutoShardOptions wider =
            intra_op::copies_state_once(options) ? options : intra_op::AutoShardOptions{};
        check_choice(plan, *graph, model, wider, std::nullopt);
        const std::int64_t bytes = intra_op::peak_memory(plan, *graph).bytes * 11 / 10;
        for (bool every_copy : {false, true})
          check_choice(plan, *graph, model, wider, intra_op::MemoryLimit{bytes, every_copy});
      }
    }
  }
}

}  // namespace restriction_start_test
