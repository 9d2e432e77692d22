// Device programs as text, and what starts, waits, aliases and copies.
#include <doctest/doctest.h>

#include <algorithm>

#include "src/ir/recorder.h"
#include "support/steps.h"

namespace emit_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// y = (x w1) w2, rows of x on two devices; loss = sum of squares; plain gradient descent.
spmd::SpmdProgram two_products(int num_micro_batches) {
  const auto model = [](Recorder& g, Value x, Value y) {
    const Value w1 = g.parameter("w1", {f32, {4, 4}}, Initializer::ones());
    const Value w2 = g.parameter("w2", {f32, {4, 2}}, Initializer::ones());
    return sum(square(matmul(matmul(x, w1), w2) - y));
  };
  const Graph graph =
      training_graph({f32, {6, 4}}, {f32, {6, 2}}, model, {.num_micro_batches = num_micro_batches});
  Layouts layouts{{"x", "S0@0"},
                  {"y", "S0@0"},
                  {"loss.sum", "P+@0"},
                  {"gradient0", "P+@0"},
                  {"gradient1", "P+@0"}};
  for (const Node& node : graph.nodes)
    if (node.region == Region::apply) layouts[fmt::format("%{}", node.results[0])] = "R";
  return lowered(graph, following_plan(graph, mesh_of({2}), layouts), 0);
}

/// Device 1 of the step with one micro-batch: the gradient of w2 (b12) travels while that of w1 is
/// computed, the loss (b8) while all the rest is; both parameters are overwritten in place.
const char* const kOneMicroBatch = R"(device 1 of 2
b0: f32[4, 4]
b1: f32[4, 2]
b2: f32[3, 4] at [3, 0] of [6, 4]
b3: f32[3, 4] at [3, 0] of [6, 4]
b4: f32[3, 2] at [3, 0] of [6, 2]
b5: f32[3, 2] at [3, 0] of [6, 2]
b6: f32[3, 2] at [3, 0] of [6, 2]
b7: f32[3, 2] at [3, 0] of [6, 2]
b8: f32[]
b9: f32[]
b10: f32[3, 2] at [3, 0] of [6, 2]
b11: f32[3, 4] at [3, 0] of [6, 4]
b12: f32[4, 2]
b13: f32[4, 2]
b14: f32[4, 4]
b15: f32[4, 4]
b16: f32[4, 4] in b0
b17: f32[]
b18: f32[4, 2] in b1
kept b0, b1
reported b9
apply:
  0 load () -> b3 "x"
  1 compute einsum (b3, b0) -> b2 "einsum"
  2 compute einsum (b2, b1) -> b4 "einsum"
  3 load () -> b6 "y"
  4 compute fused (b4, b6) -> b5, b7 "sub+square"
  5 compute reduce_sum (b7) -> b8 "reduce_sum"
  6 start all_reduce sum over 0 1 (b8) -> b9 "reduce_sum.all_reduce"
  7 compute fused (b5) -> b10 "square.grad/mul"
  8 compute einsum (b10, b1) -> b11 "einsum.grad/einsum"
  9 compute einsum (b2, b10) -> b12 "einsum.grad/einsum"
  10 start all_reduce sum over 0 1 (b12) -> b13 "einsum.grad/einsum.all_reduce"
  11 compute einsum (b3, b11) -> b14 "einsum.grad/einsum"
  12 collective all_reduce sum over 0 1 (b14) -> b15 "einsum.grad/einsum.all_reduce"
  13 load () -> b17 "learning_rate"
  14 compute fused (b15, b17, b0) -> b16 "mul+sub"
  15 wait 10 "einsum.grad/einsum.all_reduce"
  16 compute fused (b13, b17, b1) -> b18 "mul+sub"
  17 wait 6 "reduce_sum.all_reduce"
)";

/// With three: gradients add up on each device as partial sums, in place, and are reduced once.
const char* const kThreeMicroBatches = R"(accumulate:
  0 load () -> b6 "x"
  1 compute einsum (b6, b0) -> b5 "einsum"
  2 compute einsum (b5, b1) -> b7 "einsum"
  3 load () -> b9 "y"
  4 compute fused (b7, b9) -> b8, b10 "sub+square"
  5 compute reduce_sum (b10) -> b11 "reduce_sum"
  6 compute add (b2, b11) -> b12 "add"
  7 compute fused (b8) -> b13 "square.grad/mul"
  8 compute einsum (b13, b1) -> b14 "einsum.grad/einsum"
  9 compute einsum (b5, b13) -> b15 "einsum.grad/einsum"
  10 compute add (b4, b15) -> b16 "add"
  11 compute einsum (b6, b14) -> b17 "einsum.grad/einsum"
  12 compute add (b3, b17) -> b18 "add"
apply:
  0 collective all_reduce sum over 0 1 (b12) -> b19 "add.all_reduce"
  1 start all_reduce sum over 0 1 (b18) -> b20 "add.all_reduce"
  2 start all_reduce sum over 0 1 (b16) -> b21 "add.all_reduce"
  3 compute fused (b19) -> b22 "mul"
  4 load () -> b24 "learning_rate"
  5 wait 1 "add.all_reduce"
  6 compute fused (b20, b24, b0) -> b23 "mul+1+sub"
  7 wait 2 "add.all_reduce"
  8 compute fused (b21, b24, b1) -> b25 "mul+1+sub"
)";

int count(const std::vector<lower::Instruction>& list, lower::Instruction::Kind kind) {
  return static_cast<int>(std::count_if(
      list.begin(), list.end(), [&](const lower::Instruction& i) { return i.kind == kind; }));
}

}  // namespace

TEST_CASE("the program of a device with one micro-batch") {
  const spmd::SpmdProgram program = two_products(1);
  CHECK(to_string(lower::emit(program, 1, true), program) == kOneMicroBatch);
}

TEST_CASE("the program of a device with three micro-batches") {
  const spmd::SpmdProgram program = two_products(3);
  const std::string text = to_string(lower::emit(program, 1, true), program);
  CHECK(text.substr(text.find("accumulate:")) == kThreeMicroBatches);
}

TEST_CASE("without overlap every collective runs where it stands") {
  const lower::DeviceProgram device = lower::emit(two_products(1), 0, false);
  CHECK(count(device.lists.back().instructions, lower::Instruction::Kind::collective) == 3);
  CHECK(count(device.lists.back().instructions, lower::Instruction::Kind::start) == 0);
  CHECK(count(device.lists.back().instructions, lower::Instruction::Kind::wait) == 0);
}

TEST_CASE("a started collective is awaited once, before its result is touched") {
  const lower::DeviceProgram device = lower::emit(two_products(1), 0, true);
  for (int i = 0; i < static_cast<int>(device.lists.back().instructions.size()); ++i) {
    if (device.lists.back().instructions[i].kind != lower::Instruction::Kind::start) continue;
    int waits = 0, wait_at = -1;
    for (int j = i + 1; j < static_cast<int>(device.lists.back().instructions.size()); ++j) {
      const lower::Instruction& later = device.lists.back().instructions[j];
      if (later.kind == lower::Instruction::Kind::wait && later.awaits == i) ++waits, wait_at = j;
      const bool reads = std::count(later.inputs.begin(), later.inputs.end(),
                                    device.lists.back().instructions[i].outputs[0]) > 0;
      CHECK((!reads || wait_at >= 0));
    }
    CHECK(waits == 1);
  }
}

TEST_CASE("at most two collectives are in flight") {
  const auto model = [](Recorder& g, Value x, Value y) {
    for (int i = 0; i < 8; ++i)
      x = tanh(matmul(x, g.parameter(fmt::format("w{}", i), {f32, {4, 4}}, Initializer::ones())));
    return mean(square(x - y));
  };
  const Graph graph = training_graph({f32, {6, 4}}, {f32, {6, 4}}, model,
                                     {.optimizer = alpa::testing::StepOptimizer::adam});
  const spmd::SpmdProgram program =
      lowered(graph, following_plan(graph, mesh_of({2}), {{"x", "S0@0"}, {"y", "S0@0"}}), 0);
  int in_flight = 0, most = 0;
  const lower::DeviceProgram device = lower::emit(program, 0, true);
  for (const lower::Instruction& instruction : device.lists.back().instructions) {
    in_flight += (instruction.kind == lower::Instruction::Kind::start) -
                 (instruction.kind == lower::Instruction::Kind::wait);
    most = std::max(most, in_flight);
  }
  CHECK(most == 2);
  CHECK(in_flight == 0);
}

TEST_CASE("what only reshapes lies in its operand's memory") {
  Recorder g;
  const Value x = g.input(InputKind::batch, "x", {f32, {4, 6}});
  const Value w = g.parameter("w", {f32, {24}}, Initializer::zeros());
  g.update(w, tanh(reshape(x, {24})) + w);
  const Graph graph = g.finish();
  const spmd::SpmdProgram program = lowered(graph, replicated_plan(graph, mesh_of({1})));
  const lower::DeviceProgram device = lower::emit(program, 0, false);
  REQUIRE(device.lists.back().instructions.size() == 2);  // load and one fused node
  CHECK(lower::memory_of(device, device.lists.back().instructions[1].inputs[0]) ==
        device.lists.back().instructions[0].outputs[0]);
}

}  // namespace emit_test
