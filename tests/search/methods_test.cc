// Which plans appear by themselves, and what the methods make of the same graph.
#include <doctest/doctest.h>

#include "alpa/autograd/gradient.h"
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "search/graphs.h"
#include "search/plans.h"
#include "src/plan/facts/strategy.h"
#include "support/unrepeated.h"

namespace methods_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// 8 devices of 10 TFLOP/s, 600 GB/s, links of 100 GB/s.
Cluster eight_devices() {
  Cluster cluster;
  cluster.devices_per_host = 8;
  cluster.device = {.memory_bytes = std::int64_t{16} << 30,
                    .flops_per_second = {{f32, 1e13}},
                    .memory_bytes_per_second = 6e11,
                    .launch_seconds = 3e-6};
  cluster.within_host = {5e-6, 1e-11};
  return cluster;
}

int parameters_split(const ShardingPlan& plan, const Graph& graph) {
  int split = 0;
  for (const Input& input : graph.inputs)
    split += input.kind == InputKind::state && input.name.find("adam") == std::string::npos &&
             graph.type(input.value).rank() == 2 && !plan.specs[input.value].is_replicated();
  return split;
}

std::string error_of(const Graph& graph, const DeviceMesh& mesh,
                     const intra_op::AutoShardOptions& options) {
  try {
    intra_op::auto_shard(graph, mesh, cost::CostModel{}, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE(
    "data and model parallelism appear by themselves as batch and width change, "
    "with infinitely fast devices") {
  const auto split = [&](std::int64_t batch, std::int64_t width) {
    const Graph graph = mlp_graph({.layers = 4, .batch = batch, .width = width});
    return parameters_split(plan_without_repeats(graph, priced_mesh({8}), cost::CostModel{}),
                            graph);
  };
  CHECK(split(4096, 64) == 0);
  CHECK(split(64, 64) == 4);
  CHECK(split(16, 1024) == 4);
}

TEST_CASE("data and model parallelism appear by themselves with devices as they are") {
  const Cluster cluster = eight_devices();
  const auto plan = [&](std::int64_t batch, std::int64_t width) {
    const Graph graph = mlp_graph({.layers = 4, .batch = batch, .width = width});
    const ShardingPlan best =
        intra_op::auto_shard(graph, cluster.mesh({8}), cost::CostModel::of(cluster), {});
    CHECK(best.cost.gap() == 0);
    return std::pair(best, graph);
  };
  const auto [wide, wide_graph] = plan(64, 8192);
  CHECK(parameters_split(wide, wide_graph) == 4);
  // Weights may be held in parts and updated there (less work), but products read
  // them whole and rows in parts.
  const auto [tall, tall_graph] = plan(65536, 512);
  for (std::size_t n = 0; n < tall_graph.nodes.size(); ++n) {
    const Node& node = tall_graph.nodes[n];
    if (node.op != &ops::einsum || node.region != Region::forward) continue;
    const Rule rule = rule_of(tall_graph, node);
    CHECK(to_string(intra_op::operand_spec(rule, tall.strategies[n], tall.mesh, 0)) == "S0@0");
    CHECK(to_string(intra_op::operand_spec(rule, tall.strategies[n], tall.mesh, 1)) == "R");
  }
}

TEST_CASE("data parallelism splits the batch in every node that has it and nothing else") {
  const Graph graph = mlp_graph({.layers = 3, .batch = 48, .width = 24});
  const ShardingPlan plan = intra_op::auto_shard(graph, priced_mesh({2, 3}), cost::CostModel{},
                                                 intra_op::data_parallel_options());
  verify(plan, graph);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const TensorType& type = graph.values[v].type;
    const std::string spec = to_string(plan.specs[v]);
    if (type.rank() == 2 && type.shape[0] == 48)
      CHECK(spec == "S0@0 S0@1");
    else
      CHECK(spec.find('S') == std::string::npos);
  }
}

TEST_CASE("with several micro-batches, ZeRO splits optimizer state while gradients accumulate") {
  const Graph graph = mlp_graph({.layers = 2, .batch = 32, .width = 16, .num_micro_batches = 2});
  const DeviceMesh mesh = priced_mesh({4});
  for (const auto& [options, kernel] :
       {std::pair(intra_op::zero2_options(), "R"), std::pair(intra_op::zero3_options(), "S")}) {
    const ShardingPlan plan = intra_op::auto_shard(graph, mesh, cost::CostModel{}, options);
    verify(plan, graph);
    CHECK(spec_of(plan, graph, "dense0.kernel").substr(0, 1) == kernel);
    CHECK(spec_of(plan, graph, "dense0.kernel.adam_m").substr(0, 1) == "S");
    CHECK(spec_of(plan, graph, "dense1.bias.adam_v") == "S0@0");
    CHECK(spec_of(plan, graph, "x") == "S0@0");
  }
}

TEST_CASE("a forced batch axis splits the batch on that axis and leaves the other free") {
  const Graph graph = mlp_graph({.layers = 2, .batch = 64, .width = 2048});
  const Cluster cluster = eight_devices();
  intra_op::AutoShardOptions options;
  options.allowed.batch_mesh_axis = 1;
  const ShardingPlan plan =
      intra_op::auto_shard(graph, cluster.mesh({4, 2}), cost::CostModel::of(cluster), options);
  CHECK(spec_of(plan, graph, "x").find("S0@1") != std::string::npos);
  CHECK(spec_of(plan, graph, "dense0.kernel").find("@0") != std::string::npos);
}

TEST_CASE("the best of several meshes is the cheapest of the plans on each") {
  const Graph graph = mlp_graph({.layers = 2, .batch = 256, .width = 512});
  const Cluster cluster = eight_devices();
  const cost::CostModel model = cost::CostModel::of(cluster);
  std::vector<DeviceMesh> meshes;
  double least = 1e9;
  for (const auto& shape : logical_mesh_shapes(8)) {
    meshes.push_back(cluster.mesh(shape));
    least = std::min(least,
                     intra_op::auto_shard(graph, meshes.back(), model, {}).cost.objective_seconds);
  }
  CHECK(intra_op::auto_shard(graph, meshes, model, {}).cost.objective_seconds == least);
}

TEST_CASE("a layer without collectives of a kind that is forbidden") {
  const Graph graph = mlp_graph({.layers = 2, .batch = 64, .width = 512});
  const Cluster cluster = eight_devices();
  intra_op::AutoShardOptions options;
  options.allowed.all_gather = options.allowed.all_to_all = false;
  const auto steps = count_steps(
      intra_op::auto_shard(graph, cluster.mesh({2, 4}), cost::CostModel::of(cluster), options));
  CHECK(steps.count("all_gather") + steps.count("all_to_all") == 0);
}

TEST_CASE("what the options ask and the graph does not allow is the user's mistake") {
  const Graph graph = mlp_graph({.layers = 1, .batch = 4, .width = 8});
  CHECK(error_of(graph, priced_mesh({8}), intra_op::data_parallel_options()) ==
        "method data: the batch of input \"x\" f32[4, 8] has 4 rows, "
        "too few to split over 8 devices; use a larger batch, "
        "fewer micro-batches or fewer devices, or the method \"shard\"");
  intra_op::AutoShardOptions options;
  options.allowed.batch_mesh_axis = 1;
  CHECK(error_of(graph, priced_mesh({4}), options) ==
        "batch_mesh_axis 1 on a mesh of 1 axes; give one from 0 to 0");
  CHECK_THROWS_WITH_AS(
      intra_op::auto_shard(graph, std::vector<DeviceMesh>{}, cost::CostModel{}, {}),
      "auto_shard: no mesh to plan for", Error);
  intra_op::AutoShardOptions impossible = intra_op::zero2_options();
  impossible.allowed.all_gather = false;
  CHECK(error_of(mlp_graph({.layers = 1, .batch = 8, .width = 8}), priced_mesh({4}), impossible) ==
        "method zero2: no plan on a 4 mesh satisfies the options; allow all_gather and "
        "all_to_all, or forbid less");
}

}  // namespace methods_test
