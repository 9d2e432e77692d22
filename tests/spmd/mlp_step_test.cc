// What a training step of nn::Dense layers becomes for a CUDA device: products with epilogues, and
// little else. Planning needs no GPU; tests/emulation counts what such a step launches.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "src/cuda_loader/cuda_cluster.h"
#include "src/lower/memory_plan.h"
#include "src/ops/all_ops.h"
#include "support/gpt_stack.h"
#include "support/mlp_step.h"

namespace mlp_step_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Cluster cards(int count) {
  CudaDevice card{};
  card.major = 9, card.multiprocessors = 132, card.clock_hertz = 1'830'000'000;
  card.memory_bytes = card.free_bytes = std::int64_t{80} << 30;
  card.memory_bytes_per_second = 3'352'000'000'000;
  return cuda_cluster(count, count, card, false);
}

/// Nodes but inputs, by operator and epilogue: "einsum_epilogue bias relu keep" → 9.
std::map<std::string, int> operators(const spmd::SpmdProgram& program) {
  std::map<std::string, int> counts;
  for (const Node& node : program.graph.nodes) {
    if (node.op == &ops::input) continue;
    std::string name(node.op->name);
    if (node.op == &ops::einsum_epilogue) name += " " + node.attributes.string("epilogue");
    ++counts[name];
  }
  return counts;
}

using Counts = std::map<std::string, int>;

}  // namespace

TEST_CASE("every product of a 10-layer MLP of nn::Dense has its epilogue") {
  for (const DType dtype : {f32, bf16})
    for (const int micro_batches : {1, 4}) {
      CAPTURE(name_of(dtype));
      CAPTURE(micro_batches);
      const auto counts = [&](const TrainingStep& step) {
        return operators(
            *plan_only(step, Serial{.num_micro_batches = micro_batches}, cards(1)).program);
      };
      Counts relu = counts(dense_mlp_step<nn::ReLU>(dtype, 10)),
             gelu = counts(dense_mlp_step<nn::GELU>(dtype, 10));
      CHECK(relu["einsum_epilogue bias relu keep"] == 9);
      CHECK(relu["einsum_epilogue relu gradient"] == 9);
      CHECK(gelu["einsum_epilogue bias gelu keep"] == 9);
      CHECK(gelu["einsum_epilogue gelu gradient"] == 9);
      for (Counts* both : {&relu, &gelu}) {
        CHECK((*both)["einsum_epilogue bias"] == 1);
        CHECK((*both)[micro_batches == 1 ? "einsum_epilogue sums1" : "einsum_epilogue sums1 add"] ==
              10);
        // The loss; the biases' gradients.
        CHECK((*both)["multi_tensor_add"] == (micro_batches == 1 ? 0 : 2));
        CHECK((*both)["einsum"] == 0);
        CHECK((*both)["squared_norms"] == 1);
        CHECK((*both)["reduce_sum"] == 0);
        CHECK((*both)["multi_tensor_adam"] == 1);
      }
    }
}

TEST_CASE(
    "without micro-batches a 10-layer step is 34 nodes: 29 products, 4 for the loss, one for "
    "Adam") {
  const spmd::SpmdProgram program =
      *plan_only(dense_mlp_step<nn::ReLU>(f32, 10), Serial{}, cards(1)).program;
  CHECK(operators(program) == Counts{{"einsum_epilogue bias relu keep", 9},
                                     {"einsum_epilogue bias", 1},
                                     {"einsum_epilogue relu gradient", 9},
                                     {"einsum_epilogue sums1", 10},
                                     {"sub", 1},
                                     {"fused", 2},
                                     {"squared_norms", 1},
                                     {"multi_tensor_adam", 1}});
}

TEST_CASE("spread over four cards, every product still has its epilogue") {
  const TrainingStep step = dense_mlp_step<nn::ReLU>(f32, 10);
  for (const Method& method :
       std::initializer_list<Method>{DataParallel{}, Zero2Parallel{}, Zero3Parallel{},
                                     ShardParallel{}, ShardParallel{.mesh_shape = {2, 2}}}) {
    Counts counts = operators(*plan_only(step, method, cards(4)).program);
    CHECK(counts["einsum_epilogue bias relu keep"] == 9);
    CHECK(counts["einsum_epilogue bias"] == 1);
    CHECK(counts["einsum_epilogue relu gradient"] == 9);
    CHECK(counts["einsum_epilogue sums1"] == 10);
    CHECK(counts["einsum"] == 0);
  }
}

TEST_CASE("overlapped updates come after their gradients and the last reader of their parameter") {
  Serial method;
  method.executor.overlap_updates = true;
  const spmd::SpmdProgram program =
      *plan_only(dense_mlp_step<nn::ReLU>(f32, 10), method, cards(1)).program;
  CHECK(operators(program)["multi_tensor_adam"] == 10);
  const lower::DeviceProgram device = lower::lower(program, 0, true, lower::memory_rules("cuda"));
  int overlapped = 0, products_behind = 0;
  for (const lower::Instruction& instruction : device.lists.back().instructions) {
    const Node& node = program.graph.nodes[instruction.node];
    overlapped += instruction.overlapped;
    if (overlapped > 0 && node.op == &ops::einsum_epilogue) ++products_behind;
    CHECK(instruction.overlapped == (node.op == &ops::multi_tensor_adam));
  }
  CHECK(overlapped == 10);
  CHECK(products_behind >= 17);  // of 19 in the backward pass
}

TEST_CASE(
    "updates of several micro-batches, and of gradients that come from other devices, stay at the "
    "end") {
  const TrainingStep step = dense_mlp_step<nn::ReLU>(f32, 10);
  const auto updates = [&](Method method) {
    const spmd::SpmdProgram program = *plan_only(step, method, cards(4)).program;
    CHECK(to_string(program).find("overlapped") == std::string::npos);
    return operators(program)["multi_tensor_adam"];
  };
  DataParallel data;
  data.executor.overlap_updates = true;
  Serial parts{.num_micro_batches = 4};
  parts.executor.overlap_updates = true;
  CHECK(updates(data) == 1);
  CHECK(updates(parts) == 1);
}

TEST_CASE("the dense layers of an attention block have their epilogues, too") {
  const TrainingStep step = alpa::testing::gpt_step(
      {.layers = 1, .batch = 8, .sequence = 64, .hidden = 256, .heads = 4, .reshape_heads = true});
  Counts counts = operators(*plan_only(step, Serial{}, cards(1)).program);
  CHECK(counts["einsum_group"] == 2);  // query, key, value; the gradients of their weights
  CHECK(counts["einsum_epilogue bias"] == 0);
  CHECK(counts["einsum_epilogue bias add"] == 2);  // output, down
  CHECK(counts["einsum_epilogue add"] == 2);       // two of the three gradients of their operand
  CHECK(counts["einsum_epilogue bias gelu keep"] == 1);
  CHECK(counts["einsum_epilogue gelu gradient"] == 1);
  CHECK(counts["einsum_epilogue sums1"] == 3);
}

}  // namespace mlp_step_test
