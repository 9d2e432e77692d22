// Memory budgets on GPT-like stacks, whose programs with memory are too large to be solved at once;
// at night stacks of 96 layers without a budget.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>

#include "alpa/parallelize.h"
#include "search/gpt_plans.h"
#include "support/error_text.h"
#include "support/nightly.h"

namespace gpt_budget_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

CompiledStep planned(int layers, ShardParallel method) {
  return plan_only(gpt_step({.layers = layers, .sequence = 128, .hidden = 512, .heads = 8}), method,
                   gpu_cluster(1, 8));
}

std::int64_t share_of(std::int64_t bytes, double share) {
  return static_cast<std::int64_t>(share * static_cast<double>(bytes));
}

void check_96_layers(const Cluster& cluster, const std::vector<int>& shape, std::int64_t batch) {
  const TrainingStep step = gpt_step({.layers = 96, .batch = batch});
  const auto start = std::chrono::steady_clock::now();
  const CompiledStep planned = plan_only(step, ShardParallel{.mesh_shape = shape}, cluster);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const PlanCost& cost = planned.plan.cost;
  MESSAGE(shape_text(planned.plan.sharding().mesh), ": ", cost.objective_seconds * 1e3, " ms, gap ",
          100 * cost.gap(), " %, planned in ", seconds, " s");
  CHECK(seconds < 60);  // on an idle machine
  CHECK(cost.objective_seconds <= least_restricted_seconds(planned.graph,
                                                           planned.plan.sharding().mesh,
                                                           cost::CostModel::of(cluster)) *
                                      (1 + 1e-4));
}

}  // namespace

TEST_CASE("a GPT-like stack is planned within 0.95 and 0.8 of what its best plan takes") {
  ShardParallel method{.mesh_shape = {2, 4}, .solver_seconds = 3};
  const std::int64_t free = planned(4, method).memory_bytes;
  for (double share : {0.95, 0.8}) {
    CAPTURE(share);
    method.memory_budget_bytes = share_of(free, share);
    const CompiledStep plan = planned(4, method);
    CHECK(plan.memory_bytes <= *method.memory_budget_bytes);
    CHECK(plan.plan.cost.lower_bound_seconds <= plan.plan.cost.objective_seconds);
  }
}

TEST_CASE("what a budget leads to depends on work, not on the time limit or the machine's speed") {
  ShardParallel method{.mesh_shape = {8}, .solver_seconds = 60};
  const std::int64_t free = planned(1, method).memory_bytes;
  method.memory_budget_bytes = share_of(free, 0.9);
  const CompiledStep plan = planned(1, method);
  CHECK(plan.memory_bytes <= *method.memory_budget_bytes);
  method.solver_seconds = 600;
  const CompiledStep same = planned(1, method);
  CHECK(to_json(plan) == to_json(same));
}

TEST_CASE("a search that is stopped before a plan fits says so, and asks for what would help") {
  const std::atomic<bool> stop = true;
  intra_op::AutoShardOptions options;
  options.limits.stop = &stop;
  options.memory_budget_bytes = 700'000;  // possible, but not among the first plans
  const Graph graph =
      gpt_graph({.layers = 1, .batch = 8, .sequence = 32, .hidden = 128, .heads = 4});
  const Cluster cluster = gpu_cluster(1, 8);
  const std::string error = error_of([&] {
    intra_op::auto_shard(graph, cluster.mesh({2, 4}), cost::CostModel::of(cluster), options);
  });
  CAPTURE(error);
  CHECK(error.starts_with(
      "method shard: no plan on a 2x4 mesh that fits into 700000 bytes per device was found before "
      "planning was stopped after "));
  CHECK(error.ends_with(" seconds; allow more seconds or more bytes"));
}

TEST_CASE(
    "a budget that no plan keeps is refuted: by how much, and what the smallest plan found takes") {
  const Graph graph =
      gpt_graph({.layers = 1, .batch = 8, .sequence = 32, .hidden = 128, .heads = 4});
  const Cluster cluster = gpu_cluster(1, 8);
  intra_op::AutoShardOptions options;
  options.memory_budget_bytes = 700'000;
  try {
    intra_op::auto_shard(graph, cluster.mesh({8}), cost::CostModel::of(cluster), options);
    FAIL("a plan keeps the budget");
  } catch (const intra_op::OverBudget& error) {
    const std::int64_t least = *options.memory_budget_bytes + error.missing_bytes;
    CHECK(error.missing_bytes > 100'000);
    CHECK(least <= error.smallest_bytes);
    CHECK(std::string(error.what())
              .find(fmt::format("the smallest plan found takes {} bytes", error.smallest_bytes)) !=
          std::string::npos);
  }
}

TEST_CASE("96 GPT-like layers are planned within the time limit, no worse than data parallelism" *
          doctest::skip(!is_nightly())) {
  check_96_layers(gpu_cluster(1, 8), {8}, 32);
  check_96_layers(gpu_cluster(1, 8), {2, 4}, 32);
  check_96_layers(gpu_cluster(8, 8), {8, 8}, 64);
}

}  // namespace gpt_budget_test
