// Tensor parallelism as in Megatron-LM (Shoeybi et al. 2019; with sequence parallelism Korthikanti
// et al. 2022) is found, not told. With few tokens an all_reduce of activations costs less than one
// of weight gradients: 4·B·T·D elements a block against 12·D². Of three blocks the middle one is
// looked at, which has a block on either side.
#include <doctest/doctest.h>

#include "search/gpt_plans.h"
#include "search/plans.h"
#include "src/spmd/program.h"

namespace megatron_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Block {
  Graph graph;
  ShardingPlan plan;
};

/// Three blocks on four devices in a row.
Block planned(std::int64_t batch, std::int64_t sequence) {
  const Cluster cluster = gpu_cluster(1, 4);
  Block block{.graph = gpt_graph({.layers = 3, .batch = batch, .sequence = sequence}), .plan = {}};
  block.plan =
      intra_op::auto_shard(block.graph, cluster.mesh({4}), cost::CostModel::of(cluster), {});
  verify(block.plan, block.graph);
  CHECK(block.plan.cost.gap() == 0);
  return block;
}

/// Collectives of whole activations [B, T, D] that the middle block makes in
/// a region: "2 all_reduce".
std::string activations_of_middle(const Block& block, Region region) {
  const TensorType activation = block.graph.type(block.graph.inputs[0].value);
  std::map<std::string, int> counts;
  for (const PlannedReshard& r : block.plan.reshards) {
    const int producer = block.graph.values[r.value].producer;
    const Node& node = block.graph.nodes[producer];
    if (node.layer != 1 || node.region != region) continue;
    const TensorType& type = block.graph.type(r.value);
    for (const ReshardStep& step : r.path.steps) {
      if (step.kind == CollectiveKind::slice) continue;
      if (type == activation)
        ++counts[std::string(name_of(step.kind))];
      else
        CHECK(type.elements() == 1024);  // gradient of a layer norm's gain or shift
    }
  }
  std::string text;
  for (const auto& [kind, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  return text;
}

void check_kernels(const Block& block) {
  for (const char* by_columns : {"query.kernel", "key.kernel", "value.kernel", "up.kernel"})
    CHECK(spec_of(block.plan, block.graph, std::string("layer1.") + by_columns) == "S1@0");
  for (const char* by_rows : {"output.kernel", "down.kernel"})
    CHECK(spec_of(block.plan, block.graph, std::string("layer1.") + by_rows) == "S0@0");
}

}  // namespace

TEST_CASE(
    "a GPT block on one axis, few tokens: Megatron-LM's two all_reduces forward and two backward") {
  const Block block = planned(2, 128);
  check_kernels(block);
  CHECK(activations_of_middle(block, Region::forward) == "2 all_reduce");
  CHECK(activations_of_middle(block, Region::backward) == "2 all_reduce");
  // The first block needs no gradient of its input. Of its first layer norm,
  // gain and shift are reduced.
  const auto sent = spmd::traffic(spmd::partition(block.graph, block.plan));
  CHECK(sent.size() == 1);
  const auto bytes = [](double elements) { return 2 * 0.75 * 4 * elements; };
  CHECK(sent.at("all_reduce").bytes == (4 * 3 - 1) * bytes(2 * 128 * 1024) + 2 * bytes(1024));
}

TEST_CASE(
    "a GPT block on one axis, one sequence: reduce_scatters and all_gathers in place of "
    "all_reduces") {
  const Block block = planned(1, 1024);
  check_kernels(block);
  const char* pairs = "2 all_gather, 2 reduce_scatter";
  CHECK(activations_of_middle(block, Region::forward) == pairs);
  CHECK(activations_of_middle(block, Region::backward) == pairs);
}

}  // namespace megatron_test
