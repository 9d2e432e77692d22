// The device programs of a step on two meshes, as text.
#include <doctest/doctest.h>

#include "src/lower/memory_plan.h"
#include "support/two_meshes.h"

using namespace alpa;
using namespace alpa::testing;

namespace {

/// tanh(x·w0 + b0) on device 0, the rest on devices 1 and 2, which have half of the rows each.
SpmdProgram two_stages() {
  const Graph graph = training_graph({f32, {8, 4}}, {f32, {8, 2}}, one_layer_per_stage(2, 4),
                                     {.num_micro_batches = 4});
  const Layouts rows{{"cut0", "S0@0"}, {"y", "S0@0"}, {"loss.sum", "P+@0"}, {"gradient2", "P+@0"}};
  return on_meshes(graph, {{mesh_from(0, {1}), {}}, {mesh_from(1, {2}), rows}}, 0);
}

/// Under 1F1B two micro-batches are in flight on the first stage: b4, which it sends
/// and reads again backward, has two copies. "wait 5 but 1": the one before the last
/// run of instruction 5 is done.
const char* const kFirst = R"(device 0 of 1 (mesh 0), arena of 656 bytes
b0: f32[4, 4] @0
b1: f32[2, 4] @320
b2: f32[2, 4] @384
b3: f32[4] @64
b4: f32[2, 4] x2 @128
b5: f32[] @256
b6: f32[2, 4] @320
b7: f32[2, 4] in b6
b8: f32[4] @448
b9: f32[4, 4] @512
b10: f32[4, 4] @576
b11: f32[4, 4] in b10
b12: f32[4] @640
b13: f32[4] in b12
b14: f32[4, 4] in b0
b15: f32[4] in b3
kept b0, b3
zeroed b10, b12
forward:
  0 load () -> b2 "x"
  1 compute einsum (b2, b0) -> b1 "einsum"
  2 wait 5 but 1 "tanh.transfer"
  3 wait 6 but 1 "tanh.transfer"
  4 compute fused (b1, b3) -> b4 "add+tanh"
  5 send b4 [1, 4] at [0, 0] to 1 in lane 0 "tanh.transfer"
  6 send b4 [1, 4] at [1, 0] to 2 in lane 0 "tanh.transfer"
backward:
  0 receive b6 [1, 4] at [0, 0] from 1 in lane 1 "einsum.grad/einsum.transfer"
  1 receive b6 [1, 4] at [1, 0] from 2 in lane 1 "einsum.grad/einsum.transfer"
  2 wait 0 "einsum.grad/einsum.transfer"
  3 wait 1 "einsum.grad/einsum.transfer"
  4 compute fused (b4, b6) -> b7 "tanh.grad/square+1+tanh.grad/mul"
  5 compute reduce_sum (b7) -> b8 "add.grad/reduce_sum"
  6 load () -> b2 "x"
  7 compute einsum (b2, b7) -> b9 "einsum.grad/einsum"
  8 compute add (b10, b9) -> b11 "add"
  9 compute add (b12, b8) -> b13 "add"
apply:
  0 load () -> b5 "learning_rate"
  1 send b5 [] at [] to 1 in lane 2 "learning_rate.transfer"
  2 send b5 [] at [] to 2 in lane 2 "learning_rate.transfer"
  3 compute fused (b11, b5, b0) -> b14 "mul+1+sub"
  4 compute fused (b13, b5, b3) -> b15 "mul+1+sub"
schedule: forward 0 1, backward 0, forward 2, backward 1, forward 3, backward 2 3, apply 0
)";

/// One in flight: the received b1 has one copy for both lists; b9, which is sent, has two.
const char* const kLast = R"(device 2 of 2 (mesh 1), arena of 544 bytes
b0: f32[4, 2] @0
b1: f32[1, 4] at [1, 0] of [2, 4] @192
b2: f32[1, 2] at [1, 0] of [2, 2] @256
b3: f32[1, 2] at [1, 0] of [2, 2] in b2
b4: f32[1, 2] at [1, 0] of [2, 2] @320
b5: f32[1, 2] at [1, 0] of [2, 2] in b4
b6: f32[] @384
b7: f32[] in b6
b8: f32[1, 2] at [1, 0] of [2, 2] in b2
b9: f32[1, 4] at [1, 0] of [2, 4] x2 @64
b10: f32[4, 2] @320
b11: f32[] @448
b12: f32[] in b11
b13: f32[4, 2] @512
b14: f32[4, 2] in b13
b15: f32[] @192
b16: f32[] in b15
b17: f32[] @256
b18: f32[4, 2] @320
b19: f32[4, 2] in b18
b20: f32[4, 2] in b0
kept b0
zeroed b11, b13
reported b16
forward:
  0 receive b1 [1, 4] at [1, 0] from 0 in lane 0 "tanh.transfer"
  1 wait 0 "tanh.transfer"
  2 compute einsum (b1, b0) -> b2 "einsum"
  3 load () -> b4 "y"
  4 compute fused (b2, b4) -> b3, b5 "sub+square"
  5 compute reduce_sum (b5) -> b6 "reduce_sum"
  6 compute fused (b6) -> b7 "mul"
backward:
  0 compute fused (b3) -> b8 "square.grad/mul"
  1 wait 6 but 1 "einsum.grad/einsum.transfer"
  2 compute einsum (b8, b0) -> b9 "einsum.grad/einsum"
  3 compute einsum (b1, b8) -> b10 "einsum.grad/einsum"
  4 compute add (b11, b7) -> b12 "add"
  5 compute add (b13, b10) -> b14 "add"
  6 send b9 [1, 4] at [1, 0] to 0 in lane 1 "einsum.grad/einsum.transfer"
apply:
  0 compute fused (b12) -> b15 "mul"
  1 start all_reduce sum over 1 2 (b15) -> b16 "mul.all_reduce"
  2 receive b17 [] at [] from 0 in lane 2 "learning_rate.transfer"
  3 fill 0 () -> b18 "w1.to_partial"
  4 wait 2 "learning_rate.transfer"
  5 compute fused (b14, b17, b18) -> b19 "mul+1+sub"
  6 collective all_reduce sum over 1 2 (b19) -> b20 "sub.all_reduce"
  7 wait 1 "mul.all_reduce"
schedule: forward 0, backward 0, forward 1, backward 1, forward 2, backward 2, forward 3, backward 3, apply 0
)";

}  // namespace

TEST_CASE("device programs of two stages under 1F1B") {
  const SpmdProgram program = two_stages();
  const auto text = [&](int device) {
    return to_string(lower(program, device, true, memory_rules("cpu"), one_f_one_b(2, 4)), program);
  };
  if (memory_rules("cpu").guard_bytes > 0) return;  // other offsets
  CHECK(text(0) == kFirst);
  CHECK(text(2) == kLast);
}
