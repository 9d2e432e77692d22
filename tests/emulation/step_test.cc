// What a captured step launches besides the kernels of its operators: no
// copies of scalars and metrics.
#include <doctest/doctest.h>

#include <optional>

#include "emulation.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/ir/recorder.h"
#include "src/lower/staging.h"
#include "src/runtime/device_state.h"
#include "src/runtime/executor.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace step_test {

using namespace alpa;
using namespace alpa::testing;
using alpa::testing::error_of;

namespace {

using Steps = std::vector<std::map<std::string, double>>;

/// An executor on a fresh machine.
runtime::Executor executor_of(const spmd::SpmdProgram& program,
                              const emulation::Machine& machine = {},
                              Capture capture = Capture::automatic,
                              bool check_instructions = false) {
  emulation::restart(machine);
  REQUIRE(cuda_support().usable());
  ExecutorOptions options;
  options.tune = false;
  options.capture = capture;
  options.check_instructions = check_instructions;
  return runtime::Executor(program, options, "cuda");
}

/// Metrics of steps of which as many as possible are under way before the first is looked at.
Steps metrics_of(runtime::Executor& executor, int steps) {
  const Graph& graph = executor.program().graph;
  const auto state = executor.make_state(3);
  std::vector<runtime::RunningStep> results;
  for (int step = 1; step <= steps; ++step) {
    std::map<std::string, double> scalars;
    for (const Input& input : graph.inputs)
      if (input.kind == InputKind::scalar)
        scalars[input.name] = input.name == "step" ? step : step * 0.01;
    results.push_back(executor.start(*state, random_batch(graph, step), scalars));
  }
  Steps metrics;
  for (const runtime::RunningStep& result : results) metrics.push_back(result.metrics());
  return metrics;
}

spmd::SpmdProgram on_one_device(const Graph& graph) {
  return lowered(graph, replicated_plan(graph, mesh_of({1})));
}

/// The nodes of a captured step of `program`, whose metrics must be the CPU's.
emulation::GraphNodes nodes_of(const spmd::SpmdProgram& program) {
  runtime::Executor cpu(program);
  const Steps expected = metrics_of(cpu, 7);
  runtime::Executor cuda = executor_of(program);
  const Steps found = metrics_of(cuda, 7);
  for (std::size_t step = 0; step < expected.size(); ++step)
    for (const auto& [name, value] : expected[step]) {
      CAPTURE(name);
      CAPTURE(step);
      CHECK(found[step].at(name) == doctest::Approx(value).epsilon(1e-5));
    }
  return emulation::last_graph();
}

/// A step whose micro-batches draw random numbers.
spmd::SpmdProgram noisy_program(int micro_batches, int devices) {
  const auto model = [](Recorder& g, Value x, Value y) {
    return small_mlp(g, x + random_normal(g, x.type(), 0, 0.5), y);
  };
  const Graph graph = training_graph(
      {f32, {192, 10}}, {f32, {192, 6}}, model,
      {.num_micro_batches = micro_batches, .optimizer = alpa::testing::StepOptimizer::adam});
  return lowered(graph, following_plan(graph, mesh_of({devices}), {{"x", "S0@0"}, {"y", "S0@0"}}));
}

/// What an executor captured, and what each of its steps then queued.
struct Captured {
  int graphs, nodes, launches_per_step, kernels_per_step;
};
Captured capture_steps(int micro_batches, int devices) {
  runtime::Executor executor = executor_of(noisy_program(micro_batches, devices));
  metrics_of(executor, 1);  // the first step of all is queued instruction by instruction
  const emulation::Totals before = emulation::totals();
  metrics_of(executor, lower::kStagedSteps);
  const emulation::Totals after = emulation::totals();
  const emulation::GraphNodes &a = before.captured, &b = after.captured;
  return {after.graphs - before.graphs,
          b.kernels + b.copies + b.clears + b.others - (a.kernels + a.copies + a.clears + a.others),
          (after.graph_launches - before.graph_launches) / lower::kStagedSteps,
          (after.kernels - before.kernels) / lower::kStagedSteps};
}

}  // namespace

TEST_CASE("a captured training step copies and clears nothing") {
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp,
                                     {.optimizer = alpa::testing::StepOptimizer::adam});
  const emulation::GraphNodes nodes = nodes_of(on_one_device(graph));
  MESSAGE("kernels: " << nodes.kernels);
  CHECK(nodes.copies == 0);
  CHECK(nodes.clears == 0);
  CHECK(nodes.others == 0);
}

TEST_CASE("micro-batches neither copy nor clear: kernels load their parts of the batch") {
  const Graph graph =
      training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp,
                     {.num_micro_batches = 3, .optimizer = alpa::testing::StepOptimizer::adam});
  const emulation::GraphNodes before = emulation::totals().captured;
  nodes_of(on_one_device(graph));
  const emulation::GraphNodes after = emulation::totals().captured;
  CHECK(after.copies == before.copies);
  CHECK(after.clears == before.clears);
}

TEST_CASE("64 micro-batches cost no more to capture than 3, and each is one launch of a graph") {
  for (const int devices : {1, 3}) {
    CAPTURE(devices);
    const Captured few = capture_steps(3, devices), many = capture_steps(64, devices);
    CHECK(few.graphs == 2 * lower::kStagedSteps);
    CHECK(many.graphs == few.graphs);
    CHECK(many.nodes == few.nodes);
    CHECK(few.launches_per_step == 3 + 1);
    CHECK(many.launches_per_step == 64 + 1);
    CHECK(few.kernels_per_step == devices);  // clear the accumulators
    CHECK(many.kernels_per_step == devices);
  }
}

TEST_CASE("every micro-batch has its own data and random numbers, captured, queued and checked") {
  const spmd::SpmdProgram program = noisy_program(5, 2);
  runtime::Executor cpu(program);
  const StepOutcome expected = run_steps(cpu, 6);
  for (const Capture capture : {Capture::always, Capture::never})
    for (const bool checked : {false, true}) {
      runtime::Executor executor = executor_of(program, {}, capture, checked);
      CHECK(largest_difference(run_steps(executor, 6), expected) < 1e-5);
    }
}

TEST_CASE(
    "a metric that other work reads, or that is an input, reaches the host by one kernel more") {
  const auto kernels = [&](std::initializer_list<const char*> more) {
    Recorder g;
    const Value x = g.input(InputKind::batch, "x", {f32, {8}}),
                rate = g.input(InputKind::scalar, "rate", {f32, {}});
    const Value w = g.parameter("w", {f32, {}}, Initializer::constant(2));
    const Value total = sum(x);
    g.update(w, w + max(x));
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
  Recorder g;
  const Value x = g.input(InputKind::batch, "x", {f32, {8}});
  const Value w = g.parameter("w", {f32, {}}, Initializer::constant(2));
  const Value next = w + max(x);
  g.update(w, next);
  g.metric("w", next);
  g.metric("sum", reshape(sum(x, {0}, true), {}));
  const emulation::GraphNodes nodes = nodes_of(on_one_device(g.finish()));
  CHECK(nodes.kernels == 2 + 1 + 1);  // maximum and addition, sum, the kernel that publishes w
  CHECK(nodes.copies == 0);
}

TEST_CASE("a scalar that a kernel writes over is loaded anew for every micro-batch") {
  Recorder g(3);
  const Value x = g.input(InputKind::batch, "x", {f32, {8}}),
              rate = g.input(InputKind::scalar, "rate", {f32, {}});
  // exp(rate) may lie where rate does: nothing else reads that. Not fused,
  // because others read it, too.
  const Value scaled = exp(rate), total = micro_batch_sum("sum", sum(x) * scaled + sum(scaled * x));
  g.set_region(Region::apply);
  g.metric("total", total);
  const int before = emulation::totals().captured.copies;
  nodes_of(on_one_device(g.finish()));
  CHECK(emulation::totals().captured.copies - before == lower::kStagedSteps);
}

TEST_CASE("many steps under way on several logical devices report each its own metrics") {
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp,
                                     {.optimizer = alpa::testing::StepOptimizer::adam});
  const emulation::GraphNodes nodes =
      nodes_of(lowered(graph, following_plan(graph, mesh_of({3}), {{"x", "S0@0"}, {"y", "S0@0"}})));
  CHECK(nodes.copies == 0);
}

TEST_CASE("steps are captured on each card, unless an option says otherwise") {
  const Graph graph =
      training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp, {.num_micro_batches = 2});
  const spmd::SpmdProgram program =
      lowered(graph, following_plan(graph, mesh_of({3}), {{"x", "S0@0"}, {"y", "S0@0"}}));
  runtime::Executor cpu(program);
  const StepOutcome expected = run_steps(cpu, 6);
  const auto graphs = [&](int cards, Capture capture) {
    runtime::Executor executor = executor_of(program, {.devices = cards}, capture);
    const int before = emulation::totals().graphs;
    CHECK(largest_difference(run_steps(executor, 6), expected) < 1e-5);
    return emulation::totals().graphs - before;
  };
  CHECK(graphs(1, Capture::automatic) == 2 * lower::kStagedSteps);  // two lists
  CHECK(graphs(1, Capture::never) == 0);
  CHECK(graphs(3, Capture::automatic) == 3 * 2 * lower::kStagedSteps);
  CHECK(graphs(3, Capture::never) == 0);
  emulation::restart({});
}

TEST_CASE("a kernel that fails in a queued step surfaces where the step is waited for") {
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, small_mlp, {});
  runtime::Executor executor = executor_of(on_one_device(graph), {}, Capture::never);
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

}  // namespace step_test
