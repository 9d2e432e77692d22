#pragma once
/// Small training steps, and plans for them made without a planner.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "alpa/autograd/gradient.h"
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "alpa/plan/sharding_plan.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/plan/cost/reshard.h"
#include "src/plan/facts/strategy.h"
#include "src/runtime/executor.h"
#include "src/train/accumulation.h"
#include "support/difference.h"

namespace alpa::testing {

enum class StepOptimizer : std::uint8_t { sgd, adam };

struct TestStepOptions {
  int num_micro_batches = 1;
  StepOptimizer optimizer = StepOptimizer::sgd;
  DType dtype = f32;
};

/// Builds a loss from the builder's parameters and batch inputs "x" and "y".
using Model = std::function<Value(Recorder&, Value x, Value y)>;

/// `strategies` per node and the reshards they need: one per value and target spec, or one per use
/// if `separate(value)`. Nothing if some layout cannot be reached from another.
inline std::optional<ShardingPlan> plan_of(
    const Graph& graph, const DeviceMesh& mesh, const std::vector<Strategy>& strategies,
    const std::function<bool()>& separate = [] { return false; });

/// Layouts by input name, or by value as in the graph's text ("%8").
using Layouts = std::map<std::string, std::string>;

/// Loss of every step, then the state after them by name, all as doubles.
struct StepOutcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> state;
};
inline StepOutcome run_steps(runtime::Executor& executor, int steps, std::uint64_t seed = 1);

inline void add_update(Recorder& g, Value w, const std::string& name, Value gradient, Value rate,
                       Value step, StepOptimizer optimizer) {
  if (optimizer == StepOptimizer::sgd)
    return g.update(w, w - cast(gradient, w.dtype()) * cast(rate, w.dtype()));
  const Value m = g.input(InputKind::state, name + ".m", w.type()),
              v = g.input(InputKind::state, name + ".v", w.type());
  const Attributes attributes{{"beta1", 0.9},
                              {"beta2", 0.999},
                              {"epsilon", 1e-8},
                              {"weight_decay", 0.0},
                              {"decoupled", std::int64_t{0}}};
  const Values results =
      g.emit(ops::multi_tensor_adam, {w, m, v, gradient, rate, step}, attributes);
  g.update(w, results[0]);
  g.update(m, results[1]);
  g.update(v, results[2]);
}

inline TensorType micro_batch(TensorType type, int n) {
  type.shape[0] /= n;
  return type;
}

/// One use of a value: which spec it finds, and which it wants.
struct Wanted {
  int value;
  UseId use;
  ShardingSpec spec;
  ShardingSpec found = {};
  bool once_per_step = false;
};

inline std::vector<Wanted> wanted_specs(const Graph& graph, const DeviceMesh& mesh,
                                        const ShardingPlan& plan) {
  std::vector<Wanted> wanted;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Rule rule = rule_of(graph, graph.nodes[n]);
    for (int i = 0; i < static_cast<int>(graph.nodes[n].operands.size()); ++i)
      wanted.push_back({graph.nodes[n].operands[i],
                        {UseKind::node, n},
                        intra_op::operand_spec(rule, plan.strategies[n], mesh, i)});
  }
  for (int u = 0; u < static_cast<int>(graph.updates.size()); ++u)
    wanted.push_back(
        {graph.updates[u].value, {UseKind::update, u}, plan.specs[graph.updates[u].input]});
  for (int m = 0; m < static_cast<int>(graph.metrics.size()); ++m)
    wanted.push_back({graph.metrics[m].value, {UseKind::metric, m}, ShardingSpec::replicated()});
  const std::vector<int> accumulators = accumulators_of_values(graph);
  for (Wanted& want : wanted) {
    want.once_per_step =
        graph.num_micro_batches > 1 && region_of_use(graph, want.use) == Region::apply;
    const bool held = want.once_per_step && accumulators[want.value] >= 0;
    want.found = plan.specs[held ? accumulators[want.value] : want.value];
  }
  return wanted;
}

/// A mesh of these sizes, axes x, y, …, with equal links.
inline DeviceMesh mesh_of(const std::vector<int>& shape) {
  std::vector<MeshAxis> axes;
  for (int size : shape) axes.push_back({std::string(1, "xyzw"[axes.size()]), size, 1e-6, 1e-9});
  return DeviceMesh(axes);
}

/// A whole training step: micro-batches of x and y, gradients (accumulated),
/// one update. Metric "loss".
inline Graph training_graph(const TensorType& x, const TensorType& y, const Model& model,
                            const TestStepOptions& options) {
  const int n = options.num_micro_batches;
  Recorder g(n);
  const Value rate = g.input(InputKind::scalar, "learning_rate", {f32, {}}),
              step = g.input(InputKind::scalar, "step", {f32, {}});
  const Value loss = model(g, g.input(InputKind::batch, "x", micro_batch(x, n)),
                           g.input(InputKind::batch, "y", micro_batch(y, n)));
  const Values parameters = g.parameters(), gradients = gradient(loss, parameters);
  g.set_region(Region::backward);
  const Value total = micro_batch_sum("loss.sum", loss);
  Values sums;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    sums.push_back(micro_batch_sum(fmt::format("gradient{}", i), gradients[i]));
  g.set_region(Region::apply);
  g.metric("loss", total * (1.0 / n));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    add_update(g, parameters[i], fmt::format("p{}", i), sums[i] * (1.0 / n), rate, step,
               options.optimizer);
  return g.finish();
}

/// mean((relu(x·a + b)·c - y)²): 10 inputs, 24 hidden, 6 outputs, parameters "a", "b", "c".
inline Value small_mlp(Recorder& g, Value x, Value y) {
  const Value a = g.parameter("a", {x.dtype(), {10, 24}}, Initializer::normal(0, 0.3));
  const Value b = g.parameter("b", {x.dtype(), {24}}, Initializer::normal(0, 0.3));
  const Value c = g.parameter("c", {x.dtype(), {24, 6}}, Initializer::normal(0, 0.3));
  return mean(square(matmul(relu(matmul(x, a) + b), c) - y));
}

/// Every node whole on every device.
inline ShardingPlan replicated_plan(const Graph& graph, const DeviceMesh& mesh) {
  return plan_of(graph, mesh, std::vector<Strategy>(graph.nodes.size())).value();
}

inline std::optional<ShardingPlan> plan_of(const Graph& graph, const DeviceMesh& mesh,
                                           const std::vector<Strategy>& strategies,
                                           const std::function<bool()>& separate) {
  ShardingPlan plan;
  plan.mesh = mesh;
  plan.strategies = strategies;
  plan.specs.resize(graph.values.size());
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    for (int i = 0; i < static_cast<int>(graph.nodes[n].results.size()); ++i)
      plan.specs[graph.nodes[n].results[i]] =
          intra_op::result_spec(rule_of(graph, graph.nodes[n]), strategies[n], mesh, i);
  std::map<std::tuple<int, bool, std::string>, int> known;
  for (const Wanted& want : wanted_specs(graph, mesh, plan)) {
    if (want.spec == want.found) continue;
    const auto [entry, fresh] =
        known.try_emplace({want.value, want.once_per_step, to_string(want.spec)},
                          static_cast<int>(plan.reshards.size()));
    if (!fresh && !separate()) {
      std::vector<UseId>& uses = plan.reshards[entry->second].uses;
      if (uses.back() != want.use) uses.push_back(want.use);
      continue;
    }
    const auto path = cost::find_reshard(graph.type(want.value), want.found, want.spec, mesh, {});
    if (!path) return std::nullopt;
    entry->second = static_cast<int>(plan.reshards.size());
    plan.reshards.push_back({want.value, *path, {want.use}});
  }
  return plan;
}

/// A valid plan with a strategy drawn for every node.
inline ShardingPlan random_plan(const Graph& graph, const DeviceMesh& mesh, std::mt19937& random) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::vector<Strategy> strategies;
    for (const Node& node : graph.nodes) {
      const std::vector<Strategy> all = intra_op::all_strategies(rule_of(graph, node), mesh);
      strategies.push_back(all[random() % all.size()]);
    }
    if (auto plan = plan_of(graph, mesh, strategies, [&] { return random() % 4 == 0; }))
      return *plan;
  }
  bug("no valid plan in 1000 attempts");
}

/// Every node's cheapest strategy: seconds to get its operands, 1 for a result
/// that does not lie as given.
inline ShardingPlan cheapest_plan(const Graph& graph, const DeviceMesh& mesh,
                                  const Layouts& layouts, bool others_whole) {
  std::vector<Strategy> strategies;
  std::vector<ShardingSpec> specs(graph.values.size());
  for (const Node& node : graph.nodes) {
    const Rule rule = rule_of(graph, node);
    const auto layout =
        layouts.find(node.op == &ops::input ? node.name : fmt::format("%{}", node.results[0]));
    const bool given = layout != layouts.end(),
               fixed = given || others_whole || node.op == &ops::input;
    const ShardingSpec wanted = parse_spec(given ? layout->second : "R");
    const auto cost = [&](const Strategy& strategy) {
      double cost = fixed && intra_op::result_spec(rule, strategy, mesh) != wanted ? 1 : 0;
      for (int i = 0; i < static_cast<int>(node.operands.size()); ++i) {
        const int value = node.operands[i];
        const auto path =
            cost::find_reshard(graph.type(value), specs[value],
                               intra_op::operand_spec(rule, strategy, mesh, i), mesh, {});
        cost += path ? path->seconds + 1e-10 * static_cast<double>(path->steps.size()) : 1;
      }
      for (int axis = 0; axis < mesh.num_axes(); ++axis)
        cost += strategy.axes[axis].kind == AxisRole::Kind::none ? 1e-12 : 0;
      return cost;
    };
    const std::vector<Strategy> all = intra_op::all_strategies(rule, mesh);
    strategies.push_back(
        *std::min_element(all.begin(), all.end(),
                          [&](const Strategy& a, const Strategy& b) { return cost(a) < cost(b); }));
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i)
      specs[node.results[i]] = intra_op::result_spec(rule, strategies.back(), mesh, i);
  }
  return plan_of(graph, mesh, strategies).value();
}

/// A plan without search: inputs named in `layouts` lie as given, others whole; every other node
/// takes the strategy whose operands are cheapest to get from what is there, of equally cheap ones
/// the one that splits the work over most axes.
inline ShardingPlan following_plan(const Graph& graph, const DeviceMesh& mesh,
                                   const Layouts& layouts) {
  return cheapest_plan(graph, mesh, layouts, false);
}

/// The plan in which every node's first result lies as given, or whole: of the strategies that do
/// so, the one with the cheapest operands.
inline ShardingPlan laid_out_plan(const Graph& graph, const DeviceMesh& mesh,
                                  const Layouts& layouts) {
  return cheapest_plan(graph, mesh, layouts, true);
}

/// partition, fuse_elementwise and bucket_collectives with a verifier after each.
inline spmd::SpmdProgram lowered(const Graph& graph, const ShardingPlan& plan,
                                 std::int64_t bucket_bytes = 1 << 20) {
  const spmd::SpmdProgram partitioned = spmd::partition(graph, plan);
  verify(partitioned);
  const spmd::SpmdProgram fused = spmd::fuse_elementwise(partitioned);
  verify(fused);
  spmd::SpmdProgram program = spmd::bucket_collectives(fused, bucket_bytes);
  verify(program);
  return program;
}

/// Batch arrays for the graph's inputs, floating ones drawn from [-1, 1), integers from [0, 3).
inline std::map<std::string, Array> random_batch(const Graph& graph, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::map<std::string, Array> batch;
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::batch) continue;
    TensorType type = graph.type(input.value);
    type.shape[0] *= graph.num_micro_batches;
    Array numbers({f64, type.shape});
    for (double& x : numbers.mutable_elements_as<double>())
      x = is_floating(type.dtype) ? std::uniform_real_distribution<double>(-1, 1)(random)
                                  : static_cast<double>(random() % 3);
    batch.emplace(input.name, numbers.cast(type.dtype));
  }
  return batch;
}

/// Scalars "learning_rate" 0.1 and "step".
inline std::map<std::string, double> scalars_of(const Graph& graph, std::int64_t step) {
  std::map<std::string, double> scalars;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::scalar)
      scalars[input.name] = input.name == "step" ? static_cast<double>(step) : 0.1;
  return scalars;
}

inline StepOutcome run_steps(runtime::Executor& executor, int steps, std::uint64_t seed) {
  const Graph& graph = executor.program().graph;
  const auto state = executor.make_state(seed);
  StepOutcome outcome;
  for (int step = 1; step <= steps; ++step)
    outcome.losses.push_back(
        executor.run(*state, random_batch(graph, step), scalars_of(graph, step)).at("loss"));
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state)
      outcome.state[input.name] = executor.read(*state, input.name).to_doubles();
  return outcome;
}

/// Largest difference between two outcomes, relative to the largest element of the tensor in
/// question (or 1 if that is less). Infinite if a number is not finite.
inline double largest_difference(const StepOutcome& a, const StepOutcome& b) {
  double worst = testing::largest_difference(b.losses, a.losses, 1);
  for (const auto& [name, values] : a.state)
    worst = std::max(worst, testing::largest_difference(b.state.at(name), values, 1));
  return worst;
}

}  // namespace alpa::testing
