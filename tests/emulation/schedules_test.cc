// Schedules of several stages per mesh, of split backward runs and of forward runs alone on CUDA
// devices: lists beyond forward, backward and apply, and messages of a device to itself.
#include <doctest/doctest.h>

#include <utility>

#include "emulation.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/runtime/executor.h"
#include "support/two_meshes.h"

namespace schedules_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr int kMicroBatches = 4, kStages = 4;

Graph graph_of_stages() {
  return training_graph(
      {f32, {24, 10}}, {f32, {24, 6}}, one_layer_per_stage(kStages, 14),
      {.num_micro_batches = kMicroBatches, .optimizer = alpa::testing::StepOptimizer::adam});
}

/// Stages on two meshes of 2 and 1 devices in turn, or each on a device of its own.
std::vector<Stage> stages_on(bool interleaved) {
  std::vector<Stage> stages;
  for (int s = 0; s < kStages; ++s)
    stages.push_back(!interleaved ? Stage{mesh_from(s, {1}), {}}
                     : s % 2 == 0 ? Stage{mesh_from(0, {2}), {{"x", "S0@0"}, {"cut0", "S0@0"}}}
                                  : Stage{mesh_from(2, {1}), {}});
  return stages;
}

}  // namespace

TEST_CASE(
    "interleaved 1F1B and zero_bubble compute what one device does, captured, queued and checked") {
  const Graph graph = graph_of_stages();
  runtime::Executor one(lowered(graph, replicated_plan(graph, mesh_of({1}))));
  const StepOutcome expected = run_steps_of(graph, one, 2);
  for (const bool interleaved : {true, false}) {
    const spmd::SpmdProgram program = on_meshes(graph, stages_on(interleaved));
    const auto schedule = interleaved ? pipeline::interleaved_one_f_one_b(2, 2, kMicroBatches)
                                      : pipeline::zero_bubble(kStages, kMicroBatches);
    const int devices = static_cast<int>(spmd::devices_of(program).size());
    for (const int cards : {1, devices})
      for (const auto& [capture, checked] :
           {std::pair{Capture::always, false}, {Capture::never, false}, {Capture::never, true}}) {
        CAPTURE(interleaved);
        CAPTURE(cards);
        CAPTURE(checked);
        emulation::restart({.devices = cards});
        REQUIRE(cuda_support().usable());
        ExecutorOptions options;
        options.tune = false;
        options.capture = capture;
        options.check_instructions = checked;
        runtime::Executor executor(program, options, "cuda", schedule);
        CHECK(largest_difference(run_steps_of(graph, executor, 2), expected) < 1e-5);
        CHECK(executor.measured_bytes(*executor.make_state(0)) == executor.memory_bytes());
      }
  }
  emulation::restart({});
}

}  // namespace schedules_test
