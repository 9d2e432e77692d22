// What the planner does with lookups: their price is that of the tokens, and a table is split the
// way that its use makes cheapest.
#include <doctest/doctest.h>

#include "alpa/ops/ops.h"
#include "alpa/train/training_step.h"
#include "search/gpt_plans.h"
#include "src/ir/recorder.h"
#include "src/plan/cost/cost_model.h"

namespace embedding_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kTokens = 4096;

std::vector<BatchInput> ids() { return {{"ids", {i32, {kTokens}}}}; }

Value loss_of(const Batch& batch, std::int64_t rows, std::int64_t width) {
  Recorder& g = recorder(batch["ids"]);
  const Value table = g.parameter("table", {f32, {rows, width}}, Initializer::normal(0, 1));
  return mean(square(embedding(table, batch["ids"])));
}

Graph evaluated(std::int64_t rows, std::int64_t width) {
  return evaluation_step(ids(), [=](const Batch& b) { return loss_of(b, rows, width); }).trace(1);
}

Graph trained(std::int64_t rows, std::int64_t width) {
  return training_step(
             ids(), [=](const Batch& b) { return loss_of(b, rows, width); }, optim::Adam{})
      .trace(1);
}

ShardingPlan plan_on_4(const Graph& graph) {
  const Cluster cluster = gpu_cluster(1, 4);
  return intra_op::auto_shard(graph, cluster.mesh({4}), cost::CostModel::of(cluster), {});
}

std::string spec_of(const ShardingPlan& plan, const Graph& graph, const std::string& input) {
  for (const Input& known : graph.inputs)
    if (known.name == input) return to_string(plan.specs[known.value]);
  return "no such input";
}

}  // namespace

TEST_CASE("a lookup costs the same whatever the number of rows in its table") {
  const double seconds = plan_on_4(evaluated(1000, 1024)).cost.objective_seconds;
  CHECK(plan_on_4(evaluated(1000 * 1000, 1024)).cost.objective_seconds == seconds);
  CHECK(plan_on_4(evaluated(1000, 4096)).cost.objective_seconds > 1.5 * seconds);
}

TEST_CASE("a trained table is split by columns where they suffice, which needs no communication") {
  const Graph graph = trained(2000 * 1000, 64);
  const ShardingPlan plan = plan_on_4(graph);
  CHECK(spec_of(plan, graph, "table") == "S1@0");
  CHECK(plan.cost.communication_seconds < 0.1 * plan.cost.compute_seconds);
}

TEST_CASE(
    "a trained table of fewer columns than devices is split by rows: a device looks up what it "
    "holds") {
  const Graph graph = trained(1000 * 1000, 2);
  const ShardingPlan plan = plan_on_4(graph);
  CHECK(spec_of(plan, graph, "table") == "S0@0");
  CHECK(spec_of(plan, graph, "table.adam_m") == "S0@0");
}

}  // namespace embedding_test
