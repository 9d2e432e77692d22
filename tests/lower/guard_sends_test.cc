// What waits before memory is overwritten that is being sent: for the micro-batch whose copy is
// reused, never for later ones.
#include <doctest/doctest.h>

#include "src/ir/recorder.h"
#include "src/lower/updates.h"
#include "support/two_meshes.h"

namespace guard_sends_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Kind = lower::Instruction::Kind;

/// Waits for sends, as "list: awaited list, behind".
std::vector<std::string> waits_of(const lower::DeviceProgram& device) {
  std::vector<std::string> waits;
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l)
    for (const lower::Instruction& wait : device.lists[l].instructions) {
      if (wait.kind != Kind::wait) continue;
      const lower::InstructionList& there =
          device.lists[wait.awaits_list < 0 ? l : wait.awaits_list];
      if (there.instructions[wait.awaits].kind == Kind::send)
        waits.push_back(fmt::format("{}: {}, {}", device.lists[l].name, there.name, wait.behind));
    }
  return waits;
}

/// A list writes a buffer that another one sends, as `order` says: "f0" writes, "b0" sends, "a"
/// writes at the end.
lower::DeviceProgram passing(int slots, const std::vector<lower::ListRun>& schedule) {
  lower::DeviceProgram device;
  device.buffers = {{.type = {f32, {2}}, .offset = {0}, .global_shape = {2}, .slots = slots}};
  lower::Instruction write, send;
  write.node = send.node = 0;
  write.outputs = {0};
  send.kind = Kind::send;
  send.inputs = {0};
  device.lists = {{"forward", {write}}, {"backward", {send}}, {"apply", {write}}};
  device.schedule = schedule;
  return device;
}

}  // namespace

TEST_CASE("a list that overwrites what another one sends waits for the copy that it reuses") {
  // Two backward runs are over when the first of three copies is written again.
  CHECK(waits_of(lower::guard_sends(passing(
            3, {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}, {0, 3}, {1, 2}, {1, 3}, {2, 0}}))) ==
        std::vector<std::string>{"forward: backward, 3",
                                 fmt::format("apply: backward, {}", lower::Instruction::kAllRuns)});
  // No copy is used twice; apply runs once, after all sends.
  CHECK(waits_of(lower::guard_sends(passing(
            4, {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0}}))) ==
        std::vector<std::string>{fmt::format("apply: backward, {}", lower::Instruction::kAllRuns)});
}

TEST_CASE("with a skip connection a stage runs ahead by all copies of what it sends") {
  constexpr int kMicroBatches = 8;
  const Model model = [](Recorder& g, Value x, Value y) {
    g.set_layer(0);
    const Value h = tanh(matmul(x, g.parameter("w0", {f32, {4, 4}}, Initializer::normal(0, 1))));
    g.set_layer(1);
    const Value z = tanh(matmul(h, g.parameter("w1", {f32, {4, 4}}, Initializer::normal(0, 1))));
    g.set_layer(2);
    const Value v = tanh(matmul(z, g.parameter("w2", {f32, {4, 4}}, Initializer::normal(0, 1))));
    g.set_layer(3);
    const Value last = matmul(v + h, g.parameter("w3", {f32, {4, 2}}, Initializer::normal(0, 1)));
    const Value loss = mean(square(last - y));
    g.set_layer(-1);
    return loss;
  };
  const Graph graph =
      training_graph({f32, {16, 4}}, {f32, {16, 2}}, model, {.num_micro_batches = kMicroBatches});
  std::vector<Stage> stages;
  for (int s = 0; s < 4; ++s) stages.push_back({mesh_from(s, {1}), {}});
  const spmd::SpmdProgram program = on_meshes(graph, stages);
  const lower::DeviceProgram first =
      lower::emit(program, 0, false, pipeline::one_f_one_b(4, kMicroBatches));
  std::vector<int> copies;
  for (const lower::Instruction& i : first.lists[0].instructions)
    if (i.kind == Kind::send)
      copies.push_back(first.buffers[lower::memory_of(first, i.inputs[0])].slots);
  // To the next stage and over two stages: one value, with a copy per micro-batch in flight.
  CHECK(copies == std::vector<int>{4, 4});
  CHECK(waits_of(first) == std::vector<std::string>{"forward: forward, 4", "forward: forward, 4"});
}

}  // namespace guard_sends_test
