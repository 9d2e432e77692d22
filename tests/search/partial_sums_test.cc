// PS1 to PS8 of the reference: where reductions go when partial results are layouts like any
// other. M: bytes of the output.
#include <doctest/doctest.h>

#include "alpa/autograd/gradient.h"
#include "alpa/ops/ops.h"
#include "search/graphs.h"
#include "search/plans.h"
#include "src/ir/recorder.h"

namespace partial_sums_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Computing is dear, so that contractions too thin to be split elsewhere are split along k.
cost::CostModel dear_compute(double flops_per_second = 1e-3) {
  cost::CostModel model;
  model.device.flops_per_second[f32] = flops_per_second;
  return model;
}

/// A product of [2, 64] and [64, 2]: on 4 devices only k can be split.
Value thin_product(Recorder& g, const std::string& name) {
  return einsum("ik,kj->ij", g.input(InputKind::state, name + "0", {f32, {2, 64}}),
                g.input(InputKind::state, name + "1", {f32, {64, 2}}));
}

void set_state(Recorder& g, const std::string& name, Value value) {
  g.update(g.input(InputKind::state, name, value.type()), value);
}

ShardingPlan plan_on(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                     const intra_op::AutoShardOptions& options = {}) {
  ShardingPlan plan = intra_op::auto_shard(graph, mesh, model, options);
  verify(plan, graph);
  CHECK(plan.cost.gap() == 0);
  return plan;
}

constexpr double kThinBytes = 2 * 2 * 4;

}  // namespace

TEST_CASE(
    "PS1, PS2: sums of products that are split along k are reduced once, after the last addition") {
  for (int products : {2, 3}) {
    Recorder g;
    Value sum = thin_product(g, "a");
    for (int i = 1; i < products; ++i)
      sum = sum + thin_product(g, std::string(1, static_cast<char>('a' + i)));
    set_state(g, "out", sum);
    const ShardingPlan plan = plan_on(g.finish(), priced_mesh({4}), dear_compute());
    CHECK(plan.cost.communication_seconds == doctest::Approx(all_reduce(kThinBytes, 4)));
    CHECK(count_steps(plan) == std::map<std::string, int>{{"all_reduce", 1}});
  }
}

TEST_CASE("PS3: a product split along k whose reader wants it split is reduce-scattered") {
  Recorder g;
  const Value x = g.input(InputKind::batch, "x", {f32, {64, 8}}),
              dy = g.input(InputKind::batch, "dy", {f32, {64, 4}});
  const Value m = g.optimizer_state(g.input(InputKind::state, "w", {f32, {8, 4}}), "m");
  const Value product = einsum("ki,kj->ij", x, dy);
  g.set_region(Region::apply);
  g.update(m, m + product);
  const Graph graph = g.finish();
  const ShardingPlan plan =
      plan_on(graph, priced_mesh({4}), dear_compute(), intra_op::zero2_options());
  CHECK(count_steps(plan) == std::map<std::string, int>{{"reduce_scatter", 1}});
  CHECK(plan.cost.communication_seconds == doctest::Approx(half_all_reduce(8 * 4 * 4, 4)));
}

TEST_CASE(
    "PS4: between tensor-parallel blocks, scatter and gather move an all_reduce's bytes and split "
    "the work between them") {
  Recorder g;
  const std::int64_t rows = 64, inner = 256, outer = 1024;
  Value h = g.input(InputKind::state, "h", {f32, {rows, inner}});
  for (int block = 0; block < 2; ++block) {
    const auto weight = [&](int i, std::int64_t m, std::int64_t n) {
      return g.parameter(fmt::format("w{}{}", block, i), {f32, {m, n}}, {});
    };
    h = matmul(gelu(matmul(h, weight(0, inner, outer))), weight(1, outer, inner));
    h = gelu(gelu(gelu(h)));  // stands for dropout, residual and normalisation
  }
  set_state(g, "out", h);
  const Graph graph = g.finish();
  cost::CostModel model;
  model.device.flops_per_second[f32] = 1e6;
  model.device.memory_bytes_per_second = 1e4;
  const ShardingPlan plan = plan_on(graph, priced_mesh({4}, {0}, {1e-3}), model);
  const auto steps = count_steps(plan);
  CHECK(steps.count("all_reduce") == 0);
  CHECK(steps.at("reduce_scatter") == 2);
  const double bytes = rows * inner * 4;
  // Two reductions, and one gather between the blocks; the first input and the last
  // output lie as they please.
  CHECK(plan.cost.communication_seconds <= 3 * half_all_reduce(bytes, 4, 0, 1e-3) + 1e-9);
}

TEST_CASE(
    "PS5: when memory binds, a data-parallel gradient is reduce-scattered into split state and the "
    "new weight gathered") {
  Recorder g;
  const Value x = g.input(InputKind::batch, "x", {f32, {64, 64}});
  const Value w = g.parameter("w", {f32, {64, 64}}, {});
  const Value loss = mean(square(matmul(x, w)));
  const Values gradients = gradient(loss, {w});
  g.set_region(Region::apply);
  adam(g, gradients);
  g.metric("loss", loss);
  const Graph graph = g.finish();
  cost::CostModel model;  // communication costs, computing costs nothing: whoever can, replicates
  intra_op::AutoShardOptions data = intra_op::data_parallel_options();
  const ShardingPlan replicated = plan_on(graph, priced_mesh({4}), model, data);
  CHECK(spec_of(replicated, graph, "w.adam_m") == "R");
  CHECK(count_steps(replicated).at("all_reduce") == 2);  // the gradient and the loss
  data.allowed.parameters = intra_op::Holding::any;
  data.allowed.optimizer_state = intra_op::Holding::split;
  const ShardingPlan split = plan_on(graph, priced_mesh({4}), model, data);
  const auto steps = count_steps(split);
  CHECK(spec_of(split, graph, "w.adam_m") != "R");
  CHECK(steps.at("reduce_scatter") == 1);
  CHECK(steps.at("all_gather") == 1);
  // As many bytes as the all_reduce, one latency more.
  CHECK(split.cost.communication_seconds ==
        doctest::Approx(replicated.cost.communication_seconds + 1));
}

TEST_CASE("PS6: gradients stay partial over the micro-batches and are reduced once per step") {
  const auto seconds = [](int micro_batches) {
    const Graph graph = mlp_graph(
        {.layers = 2, .batch = 64, .width = 8, .num_micro_batches = micro_batches, .bias = false});
    const ShardingPlan plan =
        plan_on(graph, priced_mesh({4}), cost::CostModel{}, intra_op::data_parallel_options());
    for (const Input& input : graph.inputs) {
      if (input.kind == InputKind::accumulator) CHECK(to_string(plan.specs[input.value]) == "P+@0");
    }
    return plan.cost.communication_seconds;
  };
  // Two weights and the loss, however many micro-batches there are.
  CHECK(seconds(4) == doctest::Approx(2 * all_reduce(8 * 8 * 4, 4) + all_reduce(4, 4)));
  CHECK(seconds(1) == seconds(4));
}

TEST_CASE("PS7: partial sums are reduced before a function that is not linear") {
  Recorder g;
  set_state(g, "out", gelu(thin_product(g, "a")));
  const Graph graph = g.finish();
  const ShardingPlan plan = plan_on(graph, priced_mesh({4}), dear_compute());
  REQUIRE(plan.reshards.size() == 1);
  CHECK(graph.producer(plan.reshards[0].value).op == &ops::einsum);
  CHECK(plan.cost.communication_seconds == doctest::Approx(all_reduce(kThinBytes, 4)));
}

TEST_CASE("PS8: a tied embedding's two gradients are added as partial sums and reduced once") {
  Recorder g;
  const std::int64_t tokens = 64, vocabulary = 32, hidden = 16;
  const Value token = g.input(InputKind::batch, "token", {i32, {tokens}}),
              next = g.input(InputKind::batch, "next", {i32, {tokens}});
  const Value w = g.parameter("embedding", {f32, {vocabulary, hidden}}, {});
  const Value h = gelu(einsum("tv,vh->th", one_hot(token, vocabulary), w));
  const Value loss = mean(softmax_cross_entropy(einsum("th,vh->tv", h, w), next));
  const Values gradients = gradient(loss, {w});
  g.set_region(Region::apply);
  g.update(w, w - gradients[0] * 0.1);
  g.metric("loss", loss);
  const ShardingPlan plan =
      plan_on(g.finish(), priced_mesh({4}), cost::CostModel{}, intra_op::data_parallel_options());
  CHECK(plan.cost.communication_seconds ==
        doctest::Approx(all_reduce(vocabulary * hidden * 4, 4) + all_reduce(4, 4)));
}

TEST_CASE("a loss over a split vocabulary combines numbers per row alone, under their combiners") {
  Recorder g;
  const std::int64_t tokens = 6, vocabulary = 1000, hidden = 16;
  const Value h = g.input(InputKind::batch, "h", {f32, {tokens, hidden}}),
              next = g.input(InputKind::batch, "next", {i32, {tokens}}),
              w = g.parameter("head", {f32, {vocabulary, hidden}}, {});
  const Value loss = sum(softmax_cross_entropy(einsum("th,vh->tv", h, w), next));
  const Values gradients = gradient(loss, {w});
  g.set_region(Region::apply);
  g.update(w, w - gradients[0] * 0.1);
  g.metric("loss", loss);
  const Graph graph = g.finish();
  // What is done per row alone is not worth splitting.
  const ShardingPlan plan = plan_on(graph, priced_mesh({4}), dear_compute(1e3));
  for (const Node& node : graph.nodes) {
    if (node.op == &ops::cross_entropy) {
      CHECK(to_string(plan.specs[node.operands[0]]) == "S1@0");
      CHECK(to_string(plan.specs[node.results[0]]) == "Plse@0");
      CHECK(to_string(plan.specs[node.results[1]]) == "P+@0");
    }
    if (node.op == &ops::cross_entropy_grad)
      CHECK(to_string(plan.specs[node.results[0]]) == "S1@0");
  }
  CHECK(count_steps(plan) == std::map<std::string, int>{{"all_reduce", 2}});
  CHECK(plan.cost.communication_seconds <= 2 * all_reduce(tokens * 4, 4) * (1 + 1e-9));
}

}  // namespace partial_sums_test
