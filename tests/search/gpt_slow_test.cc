// 96 layers of attention are planned within the time limit, no worse than
// data parallelism and ZeRO.
#include <doctest/doctest.h>

#include <chrono>

#include "alpa/parallelize.h"
#include "search/gpt_plans.h"

namespace gpt_slow_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

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

TEST_CASE("96 GPT-like layers on 8, 2x4 and 8x8 devices") {
  check_96_layers(gpu_cluster(1, 8), {8}, 32);
  check_96_layers(gpu_cluster(1, 8), {2, 4}, 32);
  check_96_layers(gpu_cluster(8, 8), {8, 8}, 64);
}

}  // namespace gpt_slow_test
