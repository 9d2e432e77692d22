// Steps over several meshes in GPipe and 1F1B order compute what one device
// computes, in the planned bytes.
#include <doctest/doctest.h>

#include "support/two_meshes.h"

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr int kMicroBatches = 4;

struct Case {
  const char* name;
  std::vector<Stage> stages;
};

/// 4 + 4 devices with different axes, 2 + 3 of which dimensions are not multiples, three stages.
std::vector<Case> cases() {
  const Layouts rows{{"x", "S0@0"}, {"y", "S0@0"}, {"cut0", "S0@0"}};
  return {{"4 + 4",
           {{mesh_from(0, {2, 2}),
             {{"x", "S0@0"}, {"w0", "S1@1"}, {"b0", "S0@1"}, {"cut0", "S0@0 S1@1"}}},
            {mesh_from(4, {4}), {{"y", "S0@0"}, {"cut0", "S0@0"}}}}},
          {"2 + 3",
           {{mesh_from(0, {2}), rows}, {mesh_from(2, {3}), {{"w1", "S0@0"}, {"cut0", "S1@0"}}}}},
          {"1 + 2 + 2",
           {{mesh_from(0, {1}), {}},
            {mesh_from(1, {2}), rows},
            {mesh_from(3, {2}), {{"w2", "S0@0"}}}}}};
}

Graph step_graph(int stages, alpa::testing::Optimizer optimizer,
                 int micro_batches = kMicroBatches) {
  return training_graph({f32, {24, 10}}, {f32, {24, 6}}, one_layer_per_stage(stages, 14),
                        {.num_micro_batches = micro_batches, .optimizer = optimizer});
}

Outcome on_one_device(const Graph& graph) {
  runtime::Executor executor(lowered(graph, replicated_plan(graph, mesh_of({1}))),
                             {.threads_per_device = 1});
  return run_steps_of(graph, executor, 3);
}

using MakeSchedule = pipeline::PipelineSchedule (*)(int, int);

}  // namespace

TEST_CASE(
    "several meshes compute what one device does, in planned memory and with planned traffic") {
  for (const alpa::testing::Optimizer optimizer :
       {alpa::testing::Optimizer::sgd, alpa::testing::Optimizer::adam})
    for (const Case& c : cases()) {
      const int stages = static_cast<int>(c.stages.size());
      const Graph graph = step_graph(stages, optimizer);
      const Outcome expected = on_one_device(graph);
      const spmd::SpmdProgram program = on_meshes(graph, c.stages);
      for (const MakeSchedule schedule : {pipeline::gpipe, pipeline::one_f_one_b})
        for (const Overlap overlap : {Overlap::never, Overlap::always}) {
          CAPTURE(c.name);
          CAPTURE(to_string(schedule(stages, kMicroBatches)));
          runtime::Executor executor(program, {.threads_per_device = 1, .overlap = overlap}, "cpu",
                                     schedule(stages, kMicroBatches));
          const Outcome outcome = run_steps_of(graph, executor, 3);
          CHECK(outcome.losses.size() == 3);
          CHECK(outcome.state.size() == expected.state.size());
          CHECK(largest_difference(outcome, expected) < 1e-5);
          const auto state = executor.make_state(1);
          executor.run(*state, random_batch(program.graph, 1), scalars_of(program.graph, 1));
          CHECK(executor.measured_bytes(*state) == executor.memory_bytes());
          CHECK(spmd::traffic(program).at("transfer").count > 0);
          CHECK(executor.measured_traffic() == spmd::traffic(program));
        }
    }
}

TEST_CASE("one micro-batch, and one mesh with a schedule, are no special cases") {
  const Graph graph = step_graph(2, alpa::testing::Optimizer::sgd, 1);
  runtime::Executor two(on_meshes(graph, cases()[0].stages), {.threads_per_device = 1}, "cpu",
                        pipeline::gpipe(2, 1));
  CHECK(largest_difference(run_steps_of(graph, two, 3), on_one_device(graph)) < 1e-5);

  const Graph whole = step_graph(1, alpa::testing::Optimizer::adam);
  const spmd::SpmdProgram program =
      lowered(whole, following_plan(whole, mesh_of({2}), {{"x", "S0@0"}, {"y", "S0@0"}}));
  runtime::Executor scheduled(program, {.threads_per_device = 1}, "cpu",
                              pipeline::gpipe(1, kMicroBatches));
  CHECK(largest_difference(run_steps_of(whole, scheduled, 3), on_one_device(whole)) < 1e-5);
}
