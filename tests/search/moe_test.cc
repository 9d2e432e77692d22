// Expert parallelism is found, not told: objectives and collectives of Alpa's test of a mixture of
// experts, and four all_to_alls per layer and step where the experts are split.
#include <doctest/doctest.h>

#include <cmath>

#include "alpa/nn/layers.h"
#include "alpa/nn/moe.h"
#include "search/gpt_plans.h"
#include "search/plans.h"
#include "src/spmd/program.h"
#include "support/communication_only.h"
#include "support/unrepeated.h"

namespace moe_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct MoeLayers {
  int layers = 1;
  std::int64_t batch = 64, sequence = 16, hidden = 64, heads = 16, group = 32, experts = 16;
  bool dense_dispatch = false;
};

/// Attention with one kernel for queries, keys and values, as Alpa's.
Value attended(const MoeLayers& s, Value x) {
  const Value joint =
      reshape(nn::Dense(3 * s.hidden)(x), {s.batch, s.sequence, 3, s.heads, s.hidden / s.heads});
  Values parts;
  for (const Value& part : split(joint, 3, 2))
    parts.push_back(reshape(part, {s.batch, s.sequence, s.heads, s.hidden / s.heads}));
  const Value seen =
      softmax(einsum("bthd,bshd->bhts", parts[0], parts[1]) *
              std::sqrt(static_cast<double>(s.heads) / static_cast<double>(s.hidden)));
  const Value mixed = einsum("bhts,bshd->bthd", seen, parts[2]);
  return nn::Dense(s.hidden)(reshape(mixed, x.shape()));
}

/// Layers with the norm behind the residual; all have experts. The mean of squares as the loss.
Graph moe_graph(const MoeLayers& s) {
  const TensorType type{f32, {s.batch, s.sequence, s.hidden}};
  return training_step(
             {{"x", type}, {"y", type}},
             [s](const Batch& batch) -> LossAndMetrics {
               Value x = batch["x"];
               for (int layer = 0; layer < s.layers; ++layer) {
                 const LayerScope scope(x, layer);
                 const Value a = nn::LayerNorm()(x + attended(s, x));
                 const nn::MoE experts(s.experts, 4 * s.hidden,
                                       {.group = s.group, .dense_dispatch = s.dense_dispatch});
                 x = nn::LayerNorm()(a + experts(a).y);
               }
               return mean(square(x - batch["y"]));
             },
             optim::Adam{})
      .trace(1);
}

/// Collectives in one step of the program that would run.
std::map<std::string, Traffic> program_traffic(const Graph& graph, const ShardingPlan& plan) {
  return spmd::traffic(
      spmd::bucket_collectives(spmd::fuse_elementwise(spmd::partition(graph, plan)),
                               std::int64_t{1} << 30, std::int64_t{1} << 30));
}

ShardingPlan alpa_plan(const Graph& graph, const DeviceMesh& mesh,
                       const intra_op::AutoShardOptions& options = {}) {
  const ShardingPlan plan = plan_without_repeats(
      graph, mesh, alpa::testing::communication_only({.tie_break_tails = true}), options);
  verify(plan, graph);
  return plan;
}

const std::vector<std::vector<int>> kFour = {{4, 1}, {1, 4}};

void check_split_experts(const MoeLayers& s) {
  const Graph graph = moe_graph(s);
  const double H = double(s.hidden), sent_tokens = 2 * double(s.batch * s.sequence) * H * 4,
               gradients = 4 * (3 * H * H + 3 * H + H * H + H + 4 * H + H * double(s.experts));
  for (const auto& shape : kFour) {
    const ShardingPlan plan = alpa_plan(graph, priced_mesh(shape));
    CHECK(plan.cost.gap() == 0);
    CHECK(plan.cost.objective_seconds <= 893965.09);
    const std::string split = shape[0] == 4 ? "S0@0" : "S0@1";
    CHECK(spec_of(plan, graph, "moe0.up") == split);
    CHECK(spec_of(plan, graph, "moe0.down") == split);
    for (const char* whole : {"moe0.gate", "dense0.kernel", "dense1.kernel"})
      CHECK(spec_of(plan, graph, whole) == "R");
    const auto sent = program_traffic(graph, plan);
    CHECK(sent.size() == 2);
    CHECK(sent.at("all_to_all").count == 4);
    CHECK(sent.at("all_to_all").bytes == 4 * 0.75 * sent_tokens / 4);
    CHECK(sent.at("all_reduce").count == 1);  // of the gradients and the loss
    CHECK(sent.at("all_reduce").bytes == 1.5 * (gradients + 4));
  }
}

}  // namespace

TEST_CASE("Alpa's MoE layer: experts split by themselves, four all_to_alls, all else all-reduced") {
  check_split_experts({});
  check_split_experts({.dense_dispatch = true});
}

TEST_CASE("Alpa's MoE layer, data parallelism forced: one all_reduce of gradients and the loss") {
  const Graph graph = moe_graph({});
  for (const auto& shape : kFour) {
    const auto sent = program_traffic(
        graph, alpa_plan(graph, priced_mesh(shape), intra_op::data_parallel_options()));
    CHECK(sent.size() == 1);
    CHECK(sent.at("all_reduce").count == 1);
  }
}

TEST_CASE("Alpa's MoE layer, ZeRO-2: gradients are reduce-scattered at once") {
  const Graph graph = moe_graph({});
  for (const auto& shape : kFour) {
    const auto sent =
        program_traffic(graph, alpa_plan(graph, priced_mesh(shape), intra_op::zero2_options()));
    CHECK(sent.count("all_to_all") == 0);
    CHECK(sent.at("reduce_scatter").count <= 2);
  }
}

TEST_CASE("experts on eight GPUs in a row: four all_to_alls a layer and step") {
  const Cluster cluster = gpu_cluster(1, 8);
  for (int layers : {1, 2}) {
    const Graph graph = moe_graph({.layers = layers,
                                   .batch = 8,
                                   .sequence = 1024,
                                   .hidden = 768,
                                   .group = 1024,
                                   .experts = 8});
    const ShardingPlan plan =
        intra_op::auto_shard(graph, cluster.mesh({8}), cost::CostModel::of(cluster), {});
    verify(plan, graph);
    CHECK(spec_of(plan, graph, "moe0.up") == "S0@0");
    CHECK(count_steps(plan)["all_to_all"] == 4 * layers);
    CHECK(program_traffic(graph, plan).at("all_to_all").count == 4 * layers);
  }
}

}  // namespace moe_test
