// A training step on two meshes: the CUDA devices' numbers are those of one CPU device, whatever
// the schedule, the cards and the way of queueing.
#include "support/two_meshes.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "emulation.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/ir/recorder.h"
#include "src/lower/staging.h"
#include "src/runtime/device_state.h"
#include "src/runtime/executor.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace two_meshes_test {

using namespace alpa;
using namespace alpa::testing;
using alpa::testing::error_of;

namespace {

constexpr int kMicroBatches = 4, kSteps = 2;

/// Both layers draw random numbers in every micro-batch.
Value noisy_model(Recorder& g, Value x, Value y) {
  g.set_layer(0);
  const Value w = g.parameter("w0", {f32, {10, 14}}, Initializer::normal(0, 0.3)),
              b = g.parameter("b0", {f32, {14}}, Initializer::normal(0, 0.3));
  Value h = tanh(matmul(x, w) + b);
  h = h * random_uniform(g, h.type(), 0.5, 1.5);
  g.set_layer(1);
  h = h + random_normal(g, h.type(), 0, 0.1);
  const Value last = matmul(h, g.parameter("w1", {f32, {14, 6}}, Initializer::normal(0, 0.3)));
  const Value loss = mean(square(last - y));
  g.set_layer(-1);
  return loss;
}

struct Case {
  int devices;
  std::vector<Stage> stages;
};

/// 4 + 4 devices with different axes, and 2 + 3, of which the dimensions are not multiples.
std::vector<Case> cases() {
  return {{8,
           {{mesh_from(0, {2, 2}),
             {{"x", "S0@0"}, {"w0", "S1@1"}, {"b0", "S0@1"}, {"cut0", "S0@0 S1@1"}}},
            {mesh_from(4, {4}), {{"y", "S0@0"}, {"cut0", "S0@0"}}}}},
          {5,
           {{mesh_from(0, {2}), {{"x", "S0@0"}, {"cut0", "S0@0"}}},
            {mesh_from(2, {3}), {{"w1", "S0@0"}, {"cut0", "S1@0"}}}}}};
}

Graph noisy_graph(int micro_batches = kMicroBatches) {
  return training_graph(
      {f32, {12 * micro_batches, 10}}, {f32, {12 * micro_batches, 6}}, noisy_model,
      {.num_micro_batches = micro_batches, .optimizer = alpa::testing::StepOptimizer::adam});
}

runtime::Executor executor_of(const spmd::SpmdProgram& program,
                              const pipeline::PipelineSchedule& schedule, int cards,
                              Capture capture = Capture::automatic,
                              bool check_instructions = false) {
  emulation::restart({.devices = cards});
  REQUIRE(cuda_support().usable());
  ExecutorOptions options;
  options.tune = false;
  options.capture = capture;
  options.check_instructions = check_instructions;
  return runtime::Executor(program, options, "cuda", schedule);
}

/// Outcomes have equal bits.
void check_equal(const StepOutcome& a, const StepOutcome& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.state == b.state);
}

StepOutcome outcome_of(runtime::Executor& executor) {
  return run_steps_of(noisy_graph(), executor, kSteps);
}

StepOutcome expected_outcome() {
  const Graph graph = noisy_graph();
  runtime::Executor one(lowered(graph, replicated_plan(graph, mesh_of({1}))));
  return outcome_of(one);
}

/// One executor's outcome: that of one device, in exactly the planned memory.
StepOutcome check_executor(runtime::Executor&& executor, const StepOutcome& expected) {
  const StepOutcome outcome = outcome_of(executor);
  CHECK(largest_difference(outcome, expected) < 1e-5);
  CHECK(executor.measured_bytes(*executor.make_state(0)) == executor.memory_bytes());
  const std::map<std::string, Traffic> measured = executor.measured_traffic(),
                                       planned = spmd::traffic(executor.program());
  REQUIRE(measured.size() == planned.size());
  for (const auto& [kind, traffic] : planned) {
    CHECK(measured.at(kind).count == traffic.count);
    CHECK(measured.at(kind).bytes == doctest::Approx(traffic.bytes).epsilon(1e-12));  // thirds
  }
  return outcome;
}

}  // namespace

TEST_CASE(
    "GPipe and 1F1B on two meshes compute what one device does, captured, queued and checked") {
  const StepOutcome expected = expected_outcome();
  for (const Case& c : cases()) {
    const spmd::SpmdProgram program = on_meshes(noisy_graph(), c.stages);
    CAPTURE(c.devices);
    for (const pipeline::PipelineSchedule& schedule :
         {pipeline::gpipe(2, kMicroBatches), pipeline::one_f_one_b(2, kMicroBatches)})
      for (const int cards : {1, c.devices}) {
        CAPTURE(to_string(schedule));
        CAPTURE(cards);
        const auto outcome = [&](Capture capture, bool checked) {
          return check_executor(executor_of(program, schedule, cards, capture, checked), expected);
        };
        const StepOutcome captured = outcome(Capture::always, false);
        check_equal(outcome(Capture::never, false), captured);
        check_equal(outcome(Capture::automatic, true), captured);
      }
  }
  emulation::restart({});
}

TEST_CASE("a message that fails in the first step is named with its device and micro-batch") {
  const Graph graph = noisy_graph();
  const spmd::SpmdProgram program = on_meshes(graph, cases()[1].stages);
  std::set<std::string> named;
  for (int kernel = 1; kernel <= 40; ++kernel) {
    runtime::Executor executor = executor_of(program, pipeline::one_f_one_b(2, kMicroBatches), 1);
    const auto state = executor.make_state(0);
    emulation::fail_kernel(kernel);
    const std::string text = error_of(
        [&] { executor.run(*state, random_batch(program.graph, 1), scalars_of(graph, 1)); });
    CHECK(text.find("cudaErrorIllegalAddress") != text.npos);
    if (text.find("transfer") != text.npos) named.insert(text.substr(0, text.find(':', 20)));
  }
  CHECK(named.contains(
      "stage 1, device 2: instruction 1 'mul.transfer' (transfer, forward, micro-batch 1 of 4)"));
  emulation::restart({});
}

TEST_CASE(
    "1F1B captures no more for 12 micro-batches than for 4; every further run is one more launch") {
  std::vector<emulation::Totals> totals;
  std::vector<int> runs;
  for (const int micro_batches : {4, 12}) {
    const Graph graph = noisy_graph(micro_batches);
    const pipeline::PipelineSchedule schedule = pipeline::one_f_one_b(2, micro_batches);
    runtime::Executor executor = executor_of(on_meshes(graph, cases()[1].stages), schedule, 1);
    run_steps_of(graph, executor, 1);  // the first step of all is queued instruction by instruction
    const emulation::Totals before = emulation::totals();
    run_steps_of(graph, executor, lower::kStagedSteps);
    emulation::Totals after = emulation::totals();
    after.graphs -= before.graphs, after.graph_launches -= before.graph_launches;
    after.captured.kernels -= before.captured.kernels,
        after.captured.copies -= before.captured.copies;
    totals.push_back(after);
    runs.push_back(static_cast<int>(schedule[0].size() + schedule[1].size()));
  }
  CHECK(totals[1].graphs == totals[0].graphs);
  CHECK(totals[1].captured.kernels == totals[0].captured.kernels);
  CHECK(totals[1].captured.copies == totals[0].captured.copies);
  CHECK(totals[1].graph_launches - totals[0].graph_launches ==
        lower::kStagedSteps * (runs[1] - runs[0]));
  // Step by step a list is one graph, unless it receives into memory that it has just used.
  CHECK(totals[0].graph_launches <= lower::kStagedSteps * (runs[0] + 1));
  emulation::restart({});
}

}  // namespace two_meshes_test
