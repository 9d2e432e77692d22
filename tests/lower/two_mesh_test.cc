// Steps over several meshes, in the order of every schedule, compute what one device
// computes, in the planned bytes.
#include <doctest/doctest.h>

#include "alpa/train/training_step.h"
#include "src/ir/recorder.h"
#include "src/lower/memory_plan.h"
#include "support/error_text.h"
#include "support/two_meshes.h"

namespace two_mesh_test {

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

Graph step_graph(int stages, alpa::testing::StepOptimizer optimizer,
                 int micro_batches = kMicroBatches) {
  return training_graph({f32, {24, 10}}, {f32, {24, 6}}, one_layer_per_stage(stages, 14),
                        {.num_micro_batches = micro_batches, .optimizer = optimizer});
}

StepOutcome on_one_device(const Graph& graph) {
  runtime::Executor executor(lowered(graph, replicated_plan(graph, mesh_of({1}))),
                             {.threads_per_device = 1});
  return run_steps_of(graph, executor, 3);
}

using pipeline::make_schedule;

/// Runs the program and compares it with one device: numbers, bytes of memory, traffic.
void check_equal(const Graph& graph, const StepOutcome& expected, const spmd::SpmdProgram& program,
                 const pipeline::PipelineSchedule& schedule, Overlap overlap) {
  CAPTURE(to_string(schedule));
  runtime::Executor executor(program, {.threads_per_device = 1, .overlap = overlap}, "cpu",
                             schedule);
  const StepOutcome outcome = run_steps_of(graph, executor, 3);
  CHECK(outcome.losses.size() == 3);
  CHECK(outcome.state.size() == expected.state.size());
  CHECK(largest_difference(outcome, expected) < 1e-5);
  const auto state = executor.make_state(1);
  executor.run(*state, random_batch(program.graph, 1), scalars_of(program.graph, 1));
  CHECK(executor.measured_bytes(*state) == executor.memory_bytes());
  CHECK(spmd::traffic(program).at("transfer").count > 0);
  const auto planned = spmd::traffic(program), measured = executor.measured_traffic();
  CHECK(measured.size() == planned.size());
  for (const auto& [kind, traffic] : planned) {
    CAPTURE(kind);
    CHECK(measured.at(kind).count == traffic.count);
    CHECK(measured.at(kind).bytes == doctest::Approx(traffic.bytes).epsilon(1e-12));
  }
}

/// Later layers read the product of the first one, which its backward pass does not: transfers skip
/// stages, and no list but the sender's keeps what is sent.
Model with_skips(int stages) {
  return [=](Recorder& g, Value x, Value y) {
    Value first;
    for (int s = 0; s < stages; ++s) {
      g.set_layer(s);
      const std::int64_t in = x.type().shape[1], out = s + 1 < stages ? 8 : y.type().shape[1];
      const Value product = matmul(
          x, g.parameter(fmt::format("w{}", s), {f32, {in, out}}, Initializer::normal(0, 0.3)));
      if (s == 0) first = product;
      x = s == 0 || s + 1 == stages ? tanh(product) : tanh(product) + first;
    }
    const Value loss = mean(square(x - y));
    g.set_layer(-1);
    return loss;
  };
}

/// Stage s on mesh s % meshes.
std::vector<Stage> around(int stages, const std::vector<Stage>& meshes) {
  std::vector<Stage> result;
  for (int s = 0; s < stages; ++s) result.push_back(meshes[s % meshes.size()]);
  return result;
}

}  // namespace

TEST_CASE(
    "several meshes compute what one device does, in planned memory and with planned traffic") {
  for (const alpa::testing::StepOptimizer optimizer :
       {alpa::testing::StepOptimizer::sgd, alpa::testing::StepOptimizer::adam})
    for (const Case& c : cases()) {
      CAPTURE(c.name);
      const int stages = static_cast<int>(c.stages.size());
      const Graph graph = step_graph(stages, optimizer);
      const StepOutcome expected = on_one_device(graph);
      const spmd::SpmdProgram program = on_meshes(graph, c.stages);
      for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                ScheduleKind::one_f_one_b_overlap, ScheduleKind::zero_bubble})
        for (const Overlap overlap : {Overlap::never, Overlap::always})
          check_equal(graph, expected, program, make_schedule(kind, stages, kMicroBatches),
                      overlap);
    }
}

TEST_CASE("several stages on each mesh compute what one device does") {
  const Layouts rows{{"x", "S0@0"}, {"y", "S0@0"}, {"cut0", "S0@0"}};
  const Stage two{mesh_from(0, {2}), rows}, three{mesh_from(2, {3}), {{"cut0", "S1@0"}}};
  for (const auto& [stages, meshes] :
       {std::pair(4, std::vector<Stage>{two, three}), {6, {two, three}}, {2, {two}}}) {
    CAPTURE(stages);
    const Graph graph = step_graph(stages, alpa::testing::StepOptimizer::adam);
    const spmd::SpmdProgram program = on_meshes(graph, around(stages, meshes));
    const int count = static_cast<int>(meshes.size());
    for (const Overlap overlap : {Overlap::never, Overlap::always})
      check_equal(graph, on_one_device(graph), program,
                  pipeline::interleaved_one_f_one_b(count, stages / count, kMicroBatches), overlap);
  }
}

TEST_CASE("stages on the same devices may have meshes of different shapes") {
  const std::vector<Stage> stages{
      {mesh_from(0, {2, 2}), {{"x", "S0@0"}, {"w0", "S1@1"}, {"b0", "S0@1"}}},
      {mesh_from(4, {1}), {}},
      {mesh_from(0, {4}), {{"cut0", "S0@0"}}},
      {mesh_from(4, {1}), {}}};
  const Graph graph = step_graph(4, alpa::testing::StepOptimizer::sgd);
  check_equal(graph, on_one_device(graph), on_meshes(graph, stages),
              pipeline::interleaved_one_f_one_b(2, 2, kMicroBatches), Overlap::never);
}

TEST_CASE("values that skip stages have as many copies as their sender runs ahead") {
  constexpr int kStages = 6, kSkipped = 6;
  const Graph graph = training_graph(
      {f32, {24, 10}}, {f32, {24, 6}}, with_skips(kStages),
      {.num_micro_batches = kSkipped, .optimizer = alpa::testing::StepOptimizer::sgd});
  const StepOutcome expected = on_one_device(graph);
  std::vector<Stage> meshes;
  for (int m = 0; m < 3; ++m) meshes.push_back({mesh_from(m, {1}), {}});
  check_equal(graph, expected, on_meshes(graph, around(kStages, meshes)),
              pipeline::interleaved_one_f_one_b(3, 2, kSkipped), Overlap::never);
  meshes.clear();
  for (int m = 0; m < kStages; ++m) meshes.push_back({mesh_from(m, {1}), {}});
  for (ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble})
    check_equal(graph, expected, on_meshes(graph, meshes), make_schedule(kind, kStages, kSkipped),
                Overlap::never);
}

namespace {

/// The loss of `one_layer_per_stage` without its gradients.
Graph evaluation_graph(int stages) {
  Recorder g(kMicroBatches);
  const Value loss = one_layer_per_stage(stages, 14)(
      g, g.input(InputKind::batch, "x", {f32, {24 / kMicroBatches, 10}}),
      g.input(InputKind::batch, "y", {f32, {24 / kMicroBatches, 6}}));
  const Value sum = micro_batch_sum("loss.sum", loss);
  g.set_region(Region::apply);
  g.metric("loss", sum * (1.0 / kMicroBatches));
  return g.finish();
}

}  // namespace

TEST_CASE("zero_bubble computes only what other meshes wait for before it sends") {
  constexpr int kStages = 3;
  const Graph graph = step_graph(kStages, alpa::testing::StepOptimizer::sgd);
  std::vector<Stage> meshes;
  for (int m = 0; m < kStages; ++m) meshes.push_back({mesh_from(m, {1}), {}});
  const spmd::SpmdProgram program = on_meshes(graph, meshes);
  const auto schedule = pipeline::zero_bubble(kStages, kMicroBatches);
  std::string text;
  for (int device = 0; device < kStages; ++device)
    for (const lower::InstructionList& list : lower::emit(program, device, false, schedule).lists) {
      if (list.name != "backward" && list.name != "weights") continue;
      text += list.name;
      for (const lower::Instruction& instruction : list.instructions)
        if (instruction.kind != lower::Instruction::Kind::wait)
          text += fmt::format(" {}", instruction.kind == lower::Instruction::Kind::compute
                                         ? program.graph.nodes[instruction.node].op->name
                                         : name_of(instruction.kind));
      text += "\n";
    }
  // The first mesh sends no gradient; the last one computes the sum of losses late, too.
  CHECK(text ==
        "backward receive\n"
        "weights fused reduce_sum add load einsum add\n"
        "backward receive fused einsum send\n"
        "weights reduce_sum add einsum add\n"
        "backward fused einsum send\n"
        "weights add einsum add\n");
  const auto bytes = [&](const pipeline::PipelineSchedule& runs) {
    return lower::lower(program, 0, false, lower::memory_rules("cpu"), runs).arena_bytes;
  };
  CHECK(bytes(schedule) == bytes(pipeline::one_f_one_b(kStages, kMicroBatches)));
}

TEST_CASE("inference on several meshes returns the tensors of all micro-batches") {
  Recorder g(kMicroBatches);
  const std::int64_t rows = 24 / kMicroBatches;
  Value x = g.input(InputKind::batch, "x", {f32, {rows, 10}});
  for (int s = 0; s < 2; ++s) {
    g.set_layer(s);
    x = tanh(matmul(
        x, g.parameter(fmt::format("w{}", s), {f32, {10, 10}}, Initializer::normal(0, 0.3))));
    alpa::output(fmt::format("h{}", s), x);
  }
  g.set_layer(-1);
  const Graph graph = g.finish();
  const auto predict = [&](runtime::Executor& executor) {
    const auto state = executor.make_state(1);
    const runtime::RunningStep result =
        executor.start(*state, random_batch(graph, 1), scalars_of(graph, 1));
    std::vector<double> values;
    for (const char* name : {"h0", "h1"})
      for (double value : result.outputs().at(name).to_doubles()) values.push_back(value);
    CHECK(values.size() == 2 * 24 * 10);
    return values;
  };
  runtime::Executor one(lowered(graph, replicated_plan(graph, mesh_of({1}))));
  runtime::Executor two(on_meshes(graph, {{mesh_from(0, {2}), {{"x", "S0@0"}}},
                                          {mesh_from(2, {3}), {{"cut0", "S1@0"}}}}),
                        {.threads_per_device = 1}, "cpu", pipeline::inference(2, kMicroBatches));
  CHECK(largest_difference(predict(two), predict(one), 0) < 1e-6);
}

TEST_CASE("inference runs forward only, and only steps without gradients") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const int stages = static_cast<int>(c.stages.size());
    const Graph graph = evaluation_graph(stages);
    const spmd::SpmdProgram program = on_meshes(graph, c.stages);
    const auto schedule = pipeline::inference(stages, kMicroBatches);
    check_equal(graph, on_one_device(graph), program, schedule, Overlap::never);
    const lower::DeviceProgram device = lower::emit(program, 0, false, schedule);
    CHECK(device.lists.size() == 2);
    CHECK(device.lists[0].name == "forward");
  }
  CHECK(error_of([] {
          lower::emit(
              on_meshes(step_graph(2, alpa::testing::StepOptimizer::sgd), cases()[0].stages), 0,
              false, pipeline::inference(2, kMicroBatches));
        }) ==
        "schedule inference runs forward only, but the step computes gradients "
        "(\"loss.sum.to_partial\"); choose a schedule of training, such as 1f1b");
}

TEST_CASE("one micro-batch, and one mesh with a schedule, are no special cases") {
  const Graph graph = step_graph(2, alpa::testing::StepOptimizer::sgd, 1);
  runtime::Executor two(on_meshes(graph, cases()[0].stages), {.threads_per_device = 1}, "cpu",
                        pipeline::gpipe(2, 1));
  CHECK(largest_difference(run_steps_of(graph, two, 3), on_one_device(graph)) < 1e-5);

  const Graph whole = step_graph(1, alpa::testing::StepOptimizer::adam);
  const spmd::SpmdProgram program =
      lowered(whole, following_plan(whole, mesh_of({2}), {{"x", "S0@0"}, {"y", "S0@0"}}));
  runtime::Executor scheduled(program, {.threads_per_device = 1}, "cpu",
                              pipeline::gpipe(1, kMicroBatches));
  CHECK(largest_difference(run_steps_of(whole, scheduled, 3), on_one_device(whole)) < 1e-5);
}

}  // namespace two_mesh_test
