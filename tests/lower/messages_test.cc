// Messages between devices: lanes of their own, nobody waits to send, and
// failures end everybody's step.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "src/ir/recorder.h"
#include "src/lower/memory_plan.h"
#include "src/runtime/devices.h"
#include "support/error_text.h"
#include "support/two_meshes.h"
#include "support/watched_op.h"

namespace messages_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Kind = lower::Instruction::Kind;

/// As `one_layer_per_stage(2, …)`, with the operator in layer `layer`.
Model watched_in(int layer) {
  return [=](Recorder& g, Value x, Value y) {
    g.set_layer(0);
    if (layer == 0) x = g.emit_one(watched, {x});
    const Value h = tanh(matmul(x, g.parameter("w0", {f32, {4, 4}}, Initializer::normal(0, 1))));
    g.set_layer(1);
    const Value z = layer == 1 ? g.emit_one(watched, {h}) : h;
    const Value loss =
        mean(square(matmul(z, g.parameter("w1", {f32, {4, 2}}, Initializer::normal(0, 1))) - y));
    g.set_layer(-1);
    return loss;
  };
}

Graph graph_of(int layer, int micro_batches) {
  return training_graph({f32, {8, 4}}, {f32, {8, 2}}, watched_in(layer),
                        {.num_micro_batches = micro_batches});
}

/// Sums of rows of x over two devices go to a third one, which sends them back doubled.
spmd::SpmdProgram there_and_back() {
  Recorder g(1);
  const Value x = g.input(InputKind::batch, "x", {f32, {4, 2}});
  g.metric("sum", sum(x));
  spmd::SpmdProgram program;
  program.meshes = {mesh_from(0, {2}), mesh_from(2, {1})};
  program.graph = g.finish();
  program.specs = {parse_spec("S0@0"), parse_spec("P+@0")};
  program.mesh_of_value = {0, 0};
  const auto append = [&](const OpDef& op, std::vector<int> operands, int mesh, const char* name) {
    Node node;
    node.op = &op;
    node.operands = std::move(operands);
    node.results = {static_cast<int>(program.graph.values.size())};
    node.name = name;
    if (&op == &ops::all_reduce) node.attributes = {{"axes", std::vector<std::int64_t>{0}}};
    program.graph.values.push_back({{f32, {}}, static_cast<int>(program.graph.nodes.size()), 0});
    program.specs.push_back(ShardingSpec::replicated());
    program.mesh_of_value.push_back(mesh);
    program.graph.nodes.push_back(std::move(node));
    return program.graph.nodes.back().results[0];
  };
  const int whole = append(ops::all_reduce, {1}, 0, "whole"),
            there = append(ops::transfer, {whole}, 1, "there"),
            doubled = append(ops::add, {there, there}, 1, "doubled"),
            back = append(ops::transfer, {doubled}, 0, "back");
  program.graph.metrics[0].value = back;
  verify(program);
  return program;
}

/// Moves every receive to the start of its list, and each wait along with what it awaits.
lower::DeviceProgram with_receives_first(lower::DeviceProgram device) {
  for (lower::InstructionList& list : device.lists) {
    std::vector<int> order(list.instructions.size()), place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_partition(order.begin(), order.end(),
                          [&](int i) { return list.instructions[i].kind == Kind::receive; });
    std::vector<lower::Instruction> moved;
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
    for (int i : order) moved.push_back(list.instructions[i]);
    for (lower::Instruction& instruction : moved)
      if (instruction.kind == Kind::wait) instruction.awaits = place[instruction.awaits];
    list.instructions = std::move(moved);
  }
  return device;
}

}  // namespace

TEST_CASE("a receive that was posted first and is matched late holds up no reduction") {
  const spmd::SpmdProgram program = there_and_back();
  // What devices 0 and 1 receive depends on what they reduce behind it: a lane shared with the
  // reduction would never come to it.
  for (bool overlap : {false, true}) {
    runtime::DevicesRequest request{program, {}};
    for (int device : spmd::devices_of(program)) {
      const lower::DeviceProgram emitted =
          with_receives_first(lower::emit(program, device, overlap, pipeline::gpipe(2, 1)));
      CHECK((device == 2 || emitted.lists[0].instructions[0].kind == Kind::receive));
      request.programs.push_back(lower::plan_memory(emitted, program));
    }
    lower::verify_schedules(request.programs, program);
    const auto devices = runtime::make_cpu_devices(std::move(request));
    const auto memory = devices->allocate();
    const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
    runtime::StepInputs inputs;
    inputs.batch = {reinterpret_cast<const std::byte*>(x.data())};
    inputs.scalars = {0};
    for (int step = 1; step <= 3; ++step) {
      inputs.step = step;
      devices->start(*memory, inputs);
      CHECK(devices->finish() == std::vector<double>{72});
    }
  }
}

TEST_CASE("a stage runs forward ahead of the next one: sends wait for nobody") {
  // The second stage may begin with its first forward run only when the first one has done two.
  constexpr int kMicroBatches = 4;
  const Graph graph = graph_of(1, kMicroBatches);
  const spmd::SpmdProgram program =
      on_meshes(graph, {{mesh_from(0, {1}), {}}, {mesh_from(1, {1}), {}}});
  runtime::Executor executor(program, {.threads_per_device = 1}, "cpu",
                             pipeline::one_f_one_b(2, kMicroBatches));
  const lower::DeviceProgram& first = executor.device_program(0);
  const std::vector<lower::Instruction>& forward = first.lists[0].instructions;
  const auto send = std::find_if(forward.begin(), forward.end(),
                                 [](const lower::Instruction& i) { return i.kind == Kind::send; });
  REQUIRE(send != forward.end());
  // No wait for the send behind it; one, for the run two micro-batches ago,
  // in front of what it sends.
  std::vector<int> behind;
  for (const lower::Instruction& instruction : forward)
    if (instruction.kind == Kind::wait && &forward[instruction.awaits] == &*send) {
      CHECK(&instruction < &*send);
      behind.push_back(instruction.behind);
    }
  CHECK(behind == std::vector<int>{2});
  CHECK(first.buffers[lower::memory_of(first, send->inputs[0])].slots == 2);
  on_run = [](const KernelCall&) {};
  CHECK(run_steps_of(graph, executor, 1).losses.size() == 1);
}

TEST_CASE("if a device of one mesh fails, those of the other stop, and the executor stays usable") {
  for (int layer : {0, 1})
    for (const auto& schedule : {pipeline::gpipe(2, 4), pipeline::one_f_one_b(2, 4)}) {
      const Graph graph = graph_of(layer, 4);
      const spmd::SpmdProgram program = on_meshes(
          graph, {{mesh_from(0, {2}), {{"x", "S0@0"}}}, {mesh_from(2, {2}), {{"cut0", "S0@0"}}}});
      runtime::Executor executor(program, {.threads_per_device = 1}, "cpu", schedule);
      std::atomic<int> runs{0};
      on_run = [&](const KernelCall& call) {
        if (call.inputs[0].offset[0] > 0 && ++runs == 3) fail("no ink");
      };
      const std::string message = error_of([&] { run_steps_of(graph, executor, 1); });
      CAPTURE(message);
      CHECK(message.starts_with(layer == 0 ? "stage 0, device 1: instruction "
                                           : "stage 1, device 3: instruction "));
      CHECK(message.find("'watched' (watched, forward, micro-batch 3 of 4): no ink") !=
            std::string::npos);
      on_run = [](const KernelCall&) {};
      CHECK(run_steps_of(graph, executor, 2).losses.size() == 2);
    }
}

}  // namespace messages_test
