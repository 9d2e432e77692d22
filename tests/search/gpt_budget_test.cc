// Memory budgets on GPT-like stacks, whose programs with memory are too large to be solved at once.
#include <doctest/doctest.h>

#include <atomic>

#include "alpa/parallelize.h"
#include "search/gpt_plans.h"
#include "support/error_text.h"

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

}  // namespace gpt_budget_test
