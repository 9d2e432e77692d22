// The best plan of a stack from the tables of its layers costs what the solver's
// best plan of the whole costs.
#include "src/search/layers/layered_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "search/graphs.h"
#include "search/plans.h"
#include "src/ir/recorder.h"
#include "support/gpt_stack.h"

namespace layered_plan_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Costs of about a second, so that rounding to nanoseconds is far below what tells plans apart.
cost::CostModel slow_devices() {
  cost::CostModel model;
  model.device.flops_per_second = {{f32, 2e3}};
  model.device.memory_bytes_per_second = 1e3;
  model.device.launch_seconds = 0.01;
  model.reshard.memory_bytes_per_second = 1e3;
  model.reshard.launch_seconds = 0.01;
  return model;
}

DeviceMesh slow_mesh(const std::vector<int>& sizes) {
  return priced_mesh(sizes, {0.3, 0.1}, {3e-3, 1e-3});
}

enum class Tie : std::uint8_t { none, ends, all };

/// Before the product a layer reads all that it needs of the layer before: its boundary is
/// one value each way. After it, the gradient of relu reads what the next layer reads, too,
/// and the two share copies.
enum class Activation : std::uint8_t { before, after };

struct Stack {
  int layers = 4;
  bool residual = false;
  Activation activation = Activation::before;
  Tie tie = Tie::none;
  double dropout = 0;
  int num_micro_batches = 1;
  std::int64_t batch = 16, width = 8;
  bool loss_in_layer = false;  ///< the loss belongs to the last layer
};

/// Extents that two axes of two devices cannot both split: fewer specs, smaller tables.
constexpr std::int64_t kSmall = 3;

/// Costs are rounded to nanoseconds.
constexpr double kRounding = 1 + 1e-8;

/// relu(x) · w + b, or relu(x · w + b); with residuals x + (…) · u.
Value block(Recorder& g, Value x, const Stack& s, int layer) {
  const bool tied =
      s.tie == Tie::all || (s.tie == Tie::ends && (layer == 0 || layer == s.layers - 1));
  const std::string name = tied ? "tied" : fmt::format("layer{}", layer);
  const TensorType kernel{f32, {s.width, s.width}};
  const Value w = g.parameter(name + ".w", kernel, {}),
              b = g.parameter(fmt::format("layer{}.b", layer), {f32, {s.width}}, {});
  Value h = s.activation == Activation::before ? matmul(relu(x), w) + b : relu(matmul(x, w) + b);
  if (s.dropout > 0) h = where(ge(random_uniform(g, h.type()), s.dropout), h, 0.0);
  return s.residual ? x + matmul(h, g.parameter(name + ".u", kernel, {})) : h;
}

Graph stack_graph(const Stack& s) {
  Recorder g(s.num_micro_batches);
  Value h = g.input(InputKind::batch, "x", {f32, {s.batch, s.width}});
  const Value y = g.input(InputKind::batch, "y", {f32, {s.batch, s.width}});
  for (int layer = 0; layer < s.layers; ++layer) {
    const LayerScope scope(g, layer);
    h = block(g, h, s, layer);
  }
  g.set_layer(s.loss_in_layer ? s.layers - 1 : -1);
  const Value loss = mean(square(h - y));
  g.set_layer(-1);
  const Values gradients = accumulated(g, gradient(loss, g.parameters()), "gradient");
  const Values reported = accumulated(g, {loss}, "loss");
  g.set_region(Region::apply);
  adam(g, gradients);
  g.metric("loss", reported[0]);
  return g.finish();
}

intra_op::LayeredPlan layered(const Graph& graph, const DeviceMesh& mesh,
                              const cost::CostModel& model, intra_op::PlanningCache& cache,
                              const intra_op::AutoShardOptions& options = {}) {
  const auto result = intra_op::plan_by_layers(graph, mesh, model, options, cache,
                                               {.most_cells = std::int64_t{1} << 24});
  if (const auto* failed = std::get_if<intra_op::LayerTooLarge>(&result))
    FAIL("layer " << failed->layer << " needs " << failed->cells << " cells");
  return std::get<intra_op::LayeredPlan>(result);
}

/// Returns the plan by layers after comparing it with the solver's, which must be proven
/// the best; or, if `proven` is false and the solver's time is too short for that, lie
/// between its bound and its plan.
intra_op::LayeredPlan check_whole(const Graph& graph, const DeviceMesh& mesh,
                                  intra_op::PlanningCache& cache, bool proven = true,
                                  intra_op::AutoShardOptions options = {}) {
  const cost::CostModel model = slow_devices();
  if (!proven) options.limits.seconds = 0.5;
  const ShardingPlan whole = intra_op::auto_shard(graph, mesh, model, options);
  intra_op::LayeredPlan result = layered(graph, mesh, model, cache, options);
  verify(result.plan, graph);
  const double seconds = evaluate(result.plan, graph, model).objective_seconds;
  CHECK(result.plan.cost.objective_seconds == seconds);
  if (graph.type(0).shape[0] > kSmall) CHECK(count_collectives(result.plan) > 0);
  if (proven) REQUIRE(whole.cost.gap() < 1e-12);
  CHECK(seconds <= whole.cost.objective_seconds * kRounding);
  CHECK(seconds * kRounding >= whole.cost.lower_bound_seconds);
  return result;
}

}  // namespace

TEST_CASE(
    "plain layers: tables of layers cost what the whole costs, and those of 2 layers serve 12") {
  for (const std::vector<int>& sizes : {std::vector<int>{4}, std::vector<int>{2, 2}}) {
    intra_op::PlanningCache cache;
    for (int layers : {2, 3, 5, 8, 12}) {
      CAPTURE(layers);
      const intra_op::LayeredPlan plan =
          check_whole(stack_graph({.layers = layers}), slow_mesh(sizes), cache);
      CHECK(plan.parts == layers + 1);
      CHECK(plan.tables == 3);  // the first layer, all others, and the loss
      CHECK(plan.new_tables == (layers == 2 ? 3 : 0));
    }
  }
}

TEST_CASE("layers that share an activation with the next one") {
  intra_op::PlanningCache cache;
  for (int layers : {2, 7}) {
    CAPTURE(layers);
    check_whole(stack_graph({.layers = layers, .activation = Activation::after}), slow_mesh({4}),
                cache);
  }
  check_whole(
      stack_graph({.layers = 2, .activation = Activation::after, .batch = kSmall, .width = kSmall}),
      slow_mesh({2, 2}), cache);
}

TEST_CASE("residual blocks, with dropout and several micro-batches") {
  intra_op::PlanningCache cache;
  const Stack stack{.layers = 2, .residual = true, .dropout = 0.5, .num_micro_batches = 2};
  for (int layers : {2, 5, 12}) {
    CAPTURE(layers);
    Stack s = stack;
    s.layers = layers;
    const intra_op::LayeredPlan plan = check_whole(stack_graph(s), slow_mesh({4}), cache);
    CHECK(plan.tables == std::min(layers + 1, 4));  // the last layer's sum runs in the loss's loop
    CHECK(plan.new_tables == (layers == 2 ? 3 : layers == 5 ? 1 : 0));
  }
  // more than two on two axes are beyond what the solver proves in time
  for (int layers : {2, 4}) {
    CAPTURE(layers);
    Stack s = stack;
    s.layers = layers, s.batch = s.width = kSmall;
    const intra_op::LayeredPlan plan =
        check_whole(stack_graph(s), slow_mesh({2, 2}), cache, layers == 2);
    CHECK(plan.new_tables == (layers == 2 ? 3 : 1));
  }
}

TEST_CASE("weights tied between the first and the last layer") {
  intra_op::PlanningCache cache;
  for (int layers : {2, 5, 8}) {
    CAPTURE(layers);
    check_whole(stack_graph({.layers = layers, .tie = Tie::ends, .loss_in_layer = true}),
                slow_mesh({4}), cache);
  }
  for (int layers : {2, 4}) {
    CAPTURE(layers);
    check_whole(stack_graph({.layers = layers,
                             .tie = Tie::ends,
                             .batch = kSmall,
                             .width = kSmall,
                             .loss_in_layer = true}),
                slow_mesh({2, 2}), cache);
  }
}

TEST_CASE("weights tied among all layers share their copies") {
  for (int layers : {2, 3, 6, 12}) {
    CAPTURE(layers);
    intra_op::PlanningCache cache;
    check_whole(stack_graph({.layers = layers, .tie = Tie::all}), slow_mesh({4}), cache);
  }
}

TEST_CASE("blocks of attention and layer norm") {
  intra_op::PlanningCache cache;
  for (int layers : {2, 6}) {
    CAPTURE(layers);
    const Graph graph =
        gpt_graph({.layers = layers, .batch = 4, .sequence = 8, .hidden = 16, .heads = 4});
    const intra_op::LayeredPlan plan = check_whole(graph, slow_mesh({4}), cache);
    CHECK(plan.tables == 3);
    CHECK(plan.new_tables == (layers == 2 ? 3 : 0));
  }
}

TEST_CASE("a pinned operator changes the table of its own layer alone") {
  const Stack stack{.layers = 8, .residual = true};
  const Graph graph = stack_graph(stack);
  const DeviceMesh mesh = slow_mesh({4});
  intra_op::PlanningCache cache;
  const double free = check_whole(graph, mesh, cache).plan.cost.objective_seconds;
  int dearer = 0;
  for (const char* name : {"layer3.w", "layer5.u", "layer0.b"})
    for (const char* spec : {"R", "S0@0"}) {
      CAPTURE(name);
      CAPTURE(spec);
      const int value = find_input(graph, InputKind::state, name)->value;
      intra_op::AutoShardOptions options;
      options.allowed.pins = {{graph.values[value].producer, parse_spec(spec)}};
      const intra_op::LayeredPlan plan = check_whole(graph, mesh, cache, true, options);
      CHECK(plan.new_tables == 1);
      CHECK(to_string(plan.plan.specs[value]) == spec);
      dearer += plan.plan.cost.objective_seconds > free;
    }
  CHECK(dearer > 0);
}

TEST_CASE("a table that is too large is reported with its layer") {
  intra_op::PlanningCache cache;
  const auto result = intra_op::plan_by_layers(stack_graph({}), slow_mesh({2, 2}), slow_devices(),
                                               {}, cache, {.most_cells = 100});
  const intra_op::LayerTooLarge failed = std::get<intra_op::LayerTooLarge>(result);
  CHECK(failed.cells > 100);
}

TEST_CASE("options that split the batch are refused") {
  intra_op::PlanningCache cache;
  CHECK_THROWS_WITH_AS(
      intra_op::plan_by_layers(stack_graph({}), slow_mesh({4}), slow_devices(),
                               intra_op::data_parallel_options(), cache),
      "method data: it splits the batch, but a single layer has no batch inputs to tell that "
      "dimension; use auto_shard",
      Error);
}

}  // namespace layered_plan_test
