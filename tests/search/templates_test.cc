// Templates: one use per mesh axis. No plan is worse than any of them, whatever the time.
#include "src/search/sharding/templates.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "alpa/base/error.h"
#include "alpa/parallelize.h"
#include "search/gpt_plans.h"
#include "search/graphs.h"
#include "search/plans.h"
#include "src/plan/evaluation/evaluate.h"
#include "support/error_text.h"
#include "support/planning_suite.h"

namespace templates_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Allows for the rounding of costs to nanoseconds.
constexpr double kRounding = 1 + 1e-4;
constexpr double kHurry = 0.05;

intra_op::AutoShardOptions used_for(const std::vector<AxisUse>& uses) {
  intra_op::AutoShardOptions options;
  options.allowed.axis_uses = uses;
  return options;
}

/// Plans of all templates that can be followed, each solved by itself.
std::vector<ShardingPlan> template_plans(const Graph& graph, const DeviceMesh& mesh,
                                         const cost::CostModel& model) {
  intra_op::PlanningCache cache;
  std::vector<ShardingPlan> plans;
  for (const std::vector<AxisUse>& uses : intra_op::templates_of(mesh)) {
    try {
      plans.push_back(intra_op::auto_shard(graph, mesh, model, used_for(uses), &cache));
    } catch (const Error&) {  // the batch is too small
    }
  }
  return plans;
}

double least_seconds(const std::vector<ShardingPlan>& plans) {
  double least = std::numeric_limits<double>::infinity();
  for (const ShardingPlan& plan : plans) least = std::min(least, plan.cost.objective_seconds);
  return least;
}

void check_against_templates(const Graph& graph, const DeviceMesh& mesh,
                             const cost::CostModel& model,
                             const std::vector<double>& time_limits = {kHurry}) {
  const std::vector<ShardingPlan> plans = template_plans(graph, mesh, model);
  REQUIRE(plans.size() >= 3);
  for (double seconds : time_limits) {
    intra_op::AutoShardOptions options;
    options.limits.seconds = seconds;
    const ShardingPlan plan = intra_op::auto_shard(graph, mesh, model, options);
    verify(plan, graph);
    CHECK(plan.cost.objective_seconds <= least_seconds(plans) * kRounding);
    CHECK(plan.cost.objective_seconds ==
          doctest::Approx(evaluate(plan, graph, model).objective_seconds));
  }
}

struct Fixture {
  Cluster cluster = gpu_cluster(2, 4);
  cost::CostModel model = cost::CostModel::of(cluster);
  DeviceMesh mesh = cluster.mesh({2, 4});
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "no plan of the suite is worse than a template, in 0.05 seconds") {
  for (const SuiteModel& suite : kPlanningSuite) {
    CAPTURE(suite.name);
    check_against_templates(suite.step({.stack = {.layers = 1}}).trace(1), mesh, model);
  }
}

TEST_CASE(
    "no plan on three axes, or with micro-batches, is worse than a template, in 0.05 seconds") {
  const Cluster cluster = gpu_cluster(2, 4);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph mlp =
      mlp_graph({.layers = 3, .batch = 64, .width = 512, .hidden = 2048, .num_micro_batches = 2});
  check_against_templates(mlp, cluster.mesh({2, 4}), model);
  check_against_templates(residual_mlp_step({.layers = 2, .batch = 4}).trace(2),
                          cluster.mesh({2, 2, 2}), model);
}

TEST_CASE_FIXTURE(Fixture, "with more time no plan is worse than a template, either") {
  for (const TrainingStep& step : {residual_mlp_step({.layers = 2}), attention_step({.layers = 1})})
    check_against_templates(step.trace(1), mesh, model, {0.5, 5});
}

TEST_CASE_FIXTURE(Fixture,
                  "a budget that only the leanest template keeps is kept, however short the time") {
  const Graph graph = gpt_graph({.layers = 2});
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const ShardingPlan& plan : template_plans(graph, mesh, model))
    least = std::min(least,
                     intra_op::peak_memory(
                         intra_op::with_copies_made_again(plan, intra_op::GraphFacts(graph)), graph)
                         .bytes);
  intra_op::AutoShardOptions options;
  options.limits.seconds = 1e-3;
  options.memory_budget_bytes = least;
  const ShardingPlan plan = intra_op::auto_shard(graph, mesh, model, options);
  verify(plan, graph);
  CHECK(intra_op::peak_memory(plan, graph).bytes <= least);
}

TEST_CASE(
    "where packing exceeds the budget, the next leaner template is taken, however short the time") {
  const TrainingStep step = gpt_step({.layers = 4});
  const Cluster cluster = gpu_cluster(2, 4);
  const CompiledStep zero2 = plan_only(step, Zero2Parallel{.mesh_shape = {8}}, cluster);
  const std::int64_t counted = intra_op::peak_memory(zero2.plan.sharding(), zero2.graph).bytes,
                     budget = counted + (zero2.memory_bytes - counted) / 2;
  REQUIRE(counted < budget);
  const CompiledStep planned = plan_only(
      step, ShardParallel{.mesh_shape = {8}, .memory_budget_bytes = budget, .solver_seconds = 1e-3},
      cluster);
  CHECK(planned.memory_bytes <= budget);
}

TEST_CASE_FIXTURE(Fixture, "each use of an axis splits what it says") {
  const Graph graph = gpt_graph({.layers = 1});
  const auto split = [&](std::vector<AxisUse> uses, int axis) {
    const ShardingPlan plan = intra_op::auto_shard(graph, mesh, model, used_for(uses));
    verify(plan, graph);
    std::string text;
    for (const char* name : {"x", "norm.gain", "layer0.query.kernel", "layer0.output.kernel",
                             "layer0.up.kernel", "layer0.up.kernel.adam_m"}) {
      const std::string spec = spec_of(plan, graph, name);
      const std::size_t end = spec.find(fmt::format("@{}", axis));
      text += end == std::string::npos ? '-' : spec[end - 1];  // the dimension
    }
    return text;
  };
  const AxisUse tensor = AxisUse::tensor;
  CHECK(split({AxisUse::data, tensor}, 0) == "0-----");
  CHECK(split({AxisUse::batch, tensor}, 0).front() == '0');
  CHECK(split({AxisUse::zero2, tensor}, 0).starts_with("0----"));
  CHECK(split({AxisUse::zero2, tensor}, 0).back() != '-');
  const std::string zero3 = split({AxisUse::zero3, tensor}, 0);
  CHECK(zero3.front() == '0');
  CHECK(zero3.find('-') == std::string::npos);
  for (AxisUse use : {AxisUse::batch, AxisUse::data, AxisUse::zero2, AxisUse::zero3})
    CHECK(split({use, tensor}, 1) == "--1011");  // heads and hidden features
  CHECK(split({tensor, tensor}, 0) == "--1011");
  CHECK(split({tensor, tensor}, 1) == "--1011");
}

TEST_CASE(
    "tensor parallelism reduces and gathers activations of a block as often as Megatron-LM does") {
  const Cluster cluster = gpu_cluster(1, 8);
  const auto activations = [&](int layers) {
    const Graph graph = gpt_graph({.layers = layers});
    ShardingPlan plan = intra_op::auto_shard(graph, cluster.mesh({8}), cost::CostModel::of(cluster),
                                             used_for({AxisUse::tensor}));
    std::erase_if(plan.reshards,
                  [&](const PlannedReshard& r) { return graph.type(r.value).rank() < 3; });
    return count_steps(plan);
  };
  auto two = activations(2), three = activations(3);
  CHECK(three["reduce_scatter"] - two["reduce_scatter"] == 4);  // 2 forward, 2 backward
  CHECK(three["all_gather"] - two["all_gather"] == 4);
  CHECK(three["all_reduce"] + three["all_to_all"] == two["all_reduce"] + two["all_to_all"]);
}

TEST_CASE("templates are all uses of two axes, and all pairs of uses on more") {
  CHECK(intra_op::templates_of(priced_mesh({8})).size() == 1 + 4);
  CHECK(intra_op::templates_of(priced_mesh({1, 8})).size() == 1 + 4);
  CHECK(intra_op::text_of(intra_op::templates_of(priced_mesh({1, 8})).back()) == "any, zero3");
  CHECK(intra_op::templates_of(priced_mesh({2, 4})).size() == 3 + 16);
  CHECK(intra_op::templates_of(priced_mesh({2, 2, 2})).size() == 7 + 4 + 6 * 6);
  CHECK(intra_op::templates_of(priced_mesh({1, 1})).empty());
}

TEST_CASE_FIXTURE(
    Fixture, "bounds of a template hold for its plans, and its plans bound narrower templates") {
  const Graph graph = gpt_graph({.layers = 1});
  intra_op::PlanningCache cache;
  intra_op::MeshFacts& facts = cache.of(mesh, model);
  std::map<std::vector<AxisUse>, double> seconds;
  for (const std::vector<AxisUse>& uses : intra_op::templates_of(mesh)) {
    CAPTURE(intra_op::text_of(uses));
    seconds[uses] = intra_op::auto_shard(graph, mesh, model, used_for(uses)).cost.objective_seconds;
    const double bound =
        alpa::intra_op::least_seconds(graph, intra_op::search_space(graph, used_for(uses), facts));
    CHECK(bound <= seconds[uses]);
    CHECK(bound >= 0.25 * seconds[uses]);
    CHECK(seconds.at(intra_op::wider_template(uses)) <= seconds[uses] * kRounding);
  }
}

TEST_CASE("uses for more axes than the mesh has are an error") {
  CHECK(
      error_of([] {
        intra_op::auto_shard(mlp_graph({}), priced_mesh({4}), cost::CostModel{},
                             used_for({AxisUse::data, AxisUse::tensor}));
      }) ==
      "method shard: axis_uses has 2 entries, but the mesh has 1 axes; give one per axis at most");
}

}  // namespace templates_test
