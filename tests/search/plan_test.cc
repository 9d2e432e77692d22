// Plans as data: files, verification and the independent evaluator.
#include "alpa/plan/sharding_plan.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "search/graphs.h"
#include "search/plans.h"
#include "support/error_text.h"

namespace plan_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Two matmuls of one row of weights each: small enough to look at.
Graph small_graph() { return mlp_graph({.layers = 1, .batch = 8, .width = 4, .bias = false}); }

}  // namespace

TEST_CASE(
    "a plan written and read back is the same plan, and planning again writes the same bytes") {
  for (int micro_batches : {1, 2}) {
    const Graph graph =
        mlp_graph({.layers = 3, .batch = 64, .width = 96, .num_micro_batches = micro_batches});
    const DeviceMesh mesh = some_mesh({2, 3});
    const ShardingPlan plan = intra_op::auto_shard(graph, mesh, some_model(), {});
    const std::string text = to_json(plan, graph);
    const ShardingPlan read = plan_from_json(text, graph, "plan.json");
    CHECK(read.strategies == plan.strategies);
    CHECK(read.specs == plan.specs);
    CHECK(read.mesh == plan.mesh);
    CHECK(to_json(read, graph) == text);
    CHECK(to_json(intra_op::auto_shard(graph, mesh, some_model(), {}), graph) == text);
    CHECK(evaluate(read, graph, some_model()).objective_seconds == plan.cost.objective_seconds);
  }
}

TEST_CASE("uneven dimensions and device counts are planned, not refused") {
  for (int devices : {3, 4, 5, 6, 7}) {
    const Graph graph = mlp_graph({.layers = 2, .batch = 7, .width = 10});
    for (const intra_op::AutoShardOptions& options :
         {intra_op::AutoShardOptions{}, intra_op::data_parallel_options(),
          intra_op::zero3_options()}) {
      const ShardingPlan plan =
          intra_op::auto_shard(graph, some_mesh({devices}), some_model(), options);
      verify(plan, graph);
      CHECK(plan.cost.gap() == 0);
      if (options.allowed.split_batch_everywhere) CHECK(spec_of(plan, graph, "x") == "S0@0");
    }
  }
}

TEST_CASE("the evaluator prices a hand-worked plan") {
  // x[8, 4] times w[4, 4], the batch over two devices; w replicated; one all_reduce of
  // 64 bytes for its gradient.
  const Graph graph = small_graph();
  cost::CostModel model;
  model.device.flops_per_second[f32] = 1;
  const ShardingPlan plan = intra_op::auto_shard(graph, priced_mesh({2}, {100}, {10}), model,
                                                 intra_op::data_parallel_options());
  const PlanCost cost = evaluate(plan, graph, model);
  // Gradient: 100 + 2 * 1/2 * 64 * 10; the loss likewise with 4 bytes.
  CHECK(cost.communication_seconds == doctest::Approx(740 + 140));
  // Per device 4 of 8 rows. Two matmuls 2*4*4*4 each; sub, square, its gradient 4*4 each; sum 4*4;
  // mean's scalar product 1; the gradient's factor; adam 14 per weight.
  double flops = 0;
  for (const Node& node : graph.nodes) {
    const Rule rule = rule_of(graph, node);
    const bool has_rows =
        !rule.factors.empty() && std::any_of(rule.factors.begin(), rule.factors.end(),
                                             [](const Factor& f) { return f.size == 8; });
    if (node.op != &ops::input && node.op != &ops::constant)
      flops += alpa::flops(rule) / (has_rows ? 2 : 1);
  }
  CHECK(cost.compute_seconds == doctest::Approx(flops));
  CHECK(cost.objective_seconds == cost.compute_seconds + cost.communication_seconds);
}

TEST_CASE("a plan for another graph is refused, naming both") {
  const Graph graph = small_graph(),
              other = mlp_graph({.layers = 1, .batch = 16, .width = 4, .bias = false});
  const ShardingPlan plan = intra_op::auto_shard(graph, some_mesh({2}), some_model(), {});
  CHECK(error_of([&] { plan_from_json(to_json(plan, graph), other, "p.json"); }) ==
        fmt::format("plan p.json: it was made for the graph {:016x} but this one is {:016x}; "
                    "model, batch, optimizer or number of micro-batches differ, so plan again",
                    structural_hash(graph), structural_hash(other)));
  const Graph larger = mlp_graph({.layers = 2, .batch = 8, .width = 4, .bias = false});
  CHECK(error_of([&] { verify(plan, larger); }) ==
        fmt::format("plan: it has {} nodes and {} values but the graph has {} and {}; "
                    "it was made for another graph, so plan again",
                    graph.nodes.size(), graph.values.size(), larger.nodes.size(),
                    larger.values.size()));
}

TEST_CASE("malformed plan files are refused with place and remedy") {
  const Graph graph = small_graph();
  const std::string good = to_json(
      intra_op::auto_shard(graph, some_mesh({2}), some_model(), intra_op::data_parallel_options()),
      graph);
  const auto with = [&](const std::string& before, const std::string& after) {
    std::string text = good;
    const std::size_t place = text.find(before);
    REQUIRE(place != std::string::npos);
    text.replace(place, before.size(), after);
    return error_of([&] { plan_from_json(text, graph, "p.json"); });
  };
  CHECK(with("{", "[") ==
        "plan p.json: line 2, column 10: not valid JSON; check for a missing comma, "
        "quote or bracket just before");
  CHECK(with("\"size\": 2", "\"size\": 1e400") ==
        "plan p.json: a number is too large for a double; write a smaller one");
  CHECK(with("\"size\": 2", "\"size\": 18446744073709551615") ==
        "plan p.json: mesh.axes[0].size: found 18446744073709551615, expected a whole number of 32 "
        "bits");
  CHECK(with("alpa.plan/1", "alpa.plan/0") ==
        "plan p.json: schema \"alpa.plan/0\"; this version reads \"alpa.plan/1\"; plan again");
  CHECK(with("\"method\"", "\"methods\"") == "plan p.json: method is missing");
  CHECK(with("\"size\": 2", "\"size\": \"2\"") ==
        "plan p.json: mesh.axes[0].size: found \"2\", expected a whole number of 32 bits");
  CHECK(with("\"strategy\": \"f0@0\"", "\"strategy\": \"f0\"") ==
        "plan p.json: nodes[0].strategy: strategy \"f0\": expected \"@\" and a mesh axis at \"\"; "
        "write \"-\", or words like \"f0@1\" (factor 0 split over mesh axis 1) and \"l0@0\" "
        "(linear set 0 partial over mesh axis 0)");
  CHECK(with("\"strategy\": \"f0@0\"", "\"strategy\": \"f7@0\"") ==
        "plan p.json: node 0 input \"x\" has the strategy \"f7@0\", "
        "which this operator does not have on a 2 mesh");
  CHECK(
      with("\"strategy\": \"f0@0\"", "\"strategy\": \"-\"") ==
      "plan p.json: node 0 input \"x\" with the strategy \"-\" leaves result 0 as R, not as S0@0");
  CHECK(with("\"kind\": \"all_reduce\"", "\"kind\": \"all_sum\"") ==
        "plan p.json: reshards[0].steps[0].kind: found \"all_sum\", expected all_reduce, "
        "reduce_scatter, all_gather, all_to_all, slice or to_partial");
  CHECK(with("\"kind\": \"all_reduce\"", "\"kind\": \"all_gather\"")
            .find("steps[0].from_dim: found -1; all_gather of a tensor of rank") !=
        std::string::npos);
  CHECK(with("\"to\": \"R\"", "\"to\": \"S0@0\"").find(": no all_reduce leads from P+@0 to S0@0") !=
        std::string::npos);
}

TEST_CASE("a plan that leaves a reader without its spec is refused") {
  const Graph graph = small_graph();
  ShardingPlan plan =
      intra_op::auto_shard(graph, some_mesh({2}), some_model(), intra_op::data_parallel_options());
  REQUIRE(plan.reshards.size() == 2);
  const int value = plan.reshards[1].value;
  plan.reshards.pop_back();
  CHECK(error_of([&] { verify(plan, graph); }) ==
        fmt::format(
            "plan: metric \"loss\" wants value {} as R but it is left as P+@0 and no resharding "
            "provides it",
            value));
}

}  // namespace plan_test
