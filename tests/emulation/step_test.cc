// What a captured step launches besides the kernels of its operators: no copies of scalars and metrics.
#include <doctest/doctest.h>

#include <optional>

#include "alpa/device/cuda_library.h"
#include "alpa/runtime/device_state.h"
#include "alpa/runtime/executor.h"
#include "alpa/runtime/staging.h"
#include "emulation.h"
#include "support/error_text.h"
#include "support/steps.h"

using namespace alpa;
using namespace alpa::test;
using alpa::testing::error_of;

namespace {

using Steps = std::vector<std::map<std::string, double>>;

/// An executor on a fresh machine.
Executor executor_of(const SpmdProgram& program, const emulation::Machine& machine = {},
                     Capture capture = Capture::automatic) {
  emulation::restart(machine);
  REQUIRE(cuda_support().usable());
  ExecutorOptions options;
  options.tune = false;
  options.capture = capture;
  return Executor(program, options, "cuda");
}

/// Metrics of steps of which as many as possible are under way before the first is looked at.
Steps metrics_of(Executor& executor, int steps) {
  const Graph& graph = executor.program().graph;
  const auto state = executor.make_state(3);
  std::vector<StepResult> results;
  for (int step = 1; step <= steps; ++step) {
    std::map<std::string, double> scalars;
    for (const Input& input : graph.inputs)
      if (input.kind == InputKind::scalar) scalars[input.name] = input.name == "step" ? step : step * 0.01;
    results.push_back(executor.start(*state, random_batch(graph, step), scalars));
  }
  Steps metrics;
  for (const StepResult& result : results) metrics.push_back(result.metrics());
  return metrics;
}

SpmdProgram on_one_device(const Graph& graph) {
  return lowered(graph, replicated_plan(graph, mesh_of({1})));
}

/// The nodes of a captured step of `program`, whose metrics must be the CPU's.
emulation::GraphNodes nodes_of(const SpmdProgram& program) {
  Executor cpu(program);
  const Steps expected = metrics_of(cpu, 7);
  Executor cuda = executor_of(program);
  const Steps found = metrics_of(cuda, 7);
  for (std::size_t step = 0; step < expected.size(); ++step)
    for (const auto& [name, value] : expected[step]) {
      CAPTURE(name);
      CAPTURE(step);
      CHECK(found[step].at(name) == doctest::Approx(value).epsilon(1e-5));
    }
  return emulation::last_graph();
}

}  // namespace

TEST_CASE("a captured training step copies and clears nothing") {
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp,
                                     {.optimizer = alpa::test::Optimizer::adam});
  const emulation::GraphNodes nodes = nodes_of(on_one_device(graph));
  MESSAGE("kernels: " << nodes.kernels);
  CHECK(nodes.copies == 0);
  CHECK(nodes.clears == 0);
  CHECK(nodes.others == 0);
}

TEST_CASE("micro-batches copy their batch alone, and one kernel clears the accumulators") {
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp,
                                     {.num_micro_batches = 3, .optimizer = alpa::test::Optimizer::adam});
  const emulation::GraphNodes nodes = nodes_of(on_one_device(graph));
  CHECK(nodes.copies == 3 * 2);
  CHECK(nodes.clears == 0);
}

TEST_CASE("a metric that other work reads, or that is an input, reaches the host by one kernel more") {
  const auto kernels = [&](std::initializer_list<const char*> more) {
    Builder g;
    const Value x = g.input(InputKind::batch, "x", {f32, {8}}),
                rate = g.input(InputKind::scalar, "rate", {f32, {}});
    const Value w = g.parameter("w", {f32, {}}, Initializer::constant(2));
    const Value total = sum(x);
    g.update(w, w + reduce_max(x));
    g.metric("total", total);
    for (const std::string name : more) g.metric(name, name == "rate" ? rate : total);
    const emulation::GraphNodes nodes = nodes_of(on_one_device(g.finish()));
    CHECK(nodes.copies == 0);
    return nodes.kernels;
  };
  const int direct = kernels({});
  CHECK(kernels({"rate"}) == direct + 1);
  CHECK(kernels({"rate", "again"}) == direct + 1);
}

TEST_CASE("a metric under another shape is written directly, one that is the new state is not") {
  Builder g;
  const Value x = g.input(InputKind::batch, "x", {f32, {8}});
  const Value w = g.parameter("w", {f32, {}}, Initializer::constant(2));
  const Value next = w + reduce_max(x);
  g.update(w, next);
  g.metric("w", next);
  g.metric("sum", reshape(reduce_sum(x, {0}, true), {}));
  const emulation::GraphNodes nodes = nodes_of(on_one_device(g.finish()));
  CHECK(nodes.kernels == 2 + 1 + 1);  // maximum and addition, sum, the kernel that publishes w
  CHECK(nodes.copies == 0);
}

TEST_CASE("a scalar that a kernel writes over is loaded anew for every micro-batch") {
  Builder g(3);
  const Value x = g.input(InputKind::batch, "x", {f32, {8}}),
              rate = g.input(InputKind::scalar, "rate", {f32, {}});
  // exp(rate) may lie where rate does: nothing else reads that. Not fused, because others read it, too.
  const Value scaled = exp(rate), total = accumulated(g, "sum", sum(x) * scaled + sum(scaled * x));
  g.set_region(Region::apply);
  g.metric("total", total);
  const emulation::GraphNodes nodes = nodes_of(on_one_device(g.finish()));
  CHECK(nodes.copies >= 3);
}

TEST_CASE("many steps under way on several logical devices report each its own metrics") {
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp,
                                     {.optimizer = alpa::test::Optimizer::adam});
  const emulation::GraphNodes nodes =
      nodes_of(lowered(graph, following_plan(graph, mesh_of({3}), {{"x", "S0@0"}, {"y", "S0@0"}})));
  CHECK(nodes.copies == 0);
}

TEST_CASE("steps are captured on one card, queued one by one on several, unless an option says otherwise") {
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp, {.num_micro_batches = 2});
  const SpmdProgram program =
      lowered(graph, following_plan(graph, mesh_of({3}), {{"x", "S0@0"}, {"y", "S0@0"}}));
  Executor cpu(program);
  const Outcome expected = run_steps(cpu, 6);
  const auto graphs = [&](int cards, Capture capture) {
    Executor executor = executor_of(program, {.devices = cards}, capture);
    const int before = emulation::graphs();
    CHECK(largest_difference(run_steps(executor, 6), expected) < 1e-5);
    return emulation::graphs() - before;
  };
  CHECK(graphs(1, Capture::automatic) == kStagedSteps);
  CHECK(graphs(1, Capture::never) == 0);
  CHECK(graphs(3, Capture::automatic) == 0);
  CHECK(graphs(3, Capture::always) == kStagedSteps);
  emulation::restart({});
}

TEST_CASE("a kernel that fails in a queued step surfaces where the step is waited for") {
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp, {});
  Executor executor = executor_of(on_one_device(graph), {}, Capture::never);
  const auto state = executor.make_state(0);
  const auto start = [&](int step) {
    return executor.start(*state, random_batch(graph, step), scalars_of(graph, step));
  };
  start(1).metrics();
  emulation::fail_kernel(3);
  const std::string text = error_of([&] { start(2).metrics(); });
  CHECK(text.find("a step under way failed: cudaErrorIllegalAddress (700): ") != text.npos);
  CHECK(text.ends_with("; ExecutorOptions::check_instructions names the instruction"));
}
