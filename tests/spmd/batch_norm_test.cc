// What batch normalisation in mixed precision reads and writes.
#include <doctest/doctest.h>

#include "alpa/alpa.h"
#include "src/ops/all_ops.h"
#include "src/spmd/program.h"

namespace batch_norm_test {

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 8, kImage = 6, kChannels = 24;

/// Two convolutions of 1 x 1 with normalisation and ReLU between, of other widths outside.
TrainingStep step_of() {
  return training_step({{"x", {f32, {kBatch, kImage, kImage, 16}}}},
                       [](const Batch& b) -> LossAndMetrics {
                         const nn::Conv2d before(kChannels, {1, 1}, {.bias = false}),
                             after(8, {1, 1}, {.bias = false});
                         const Value hidden = relu(nn::BatchNorm()(before(b["x"])));
                         return mean(square(cast(after(hidden), f32)));
                       },
                       optim::Sgd{}, {.precision = bf16_mixed});
}

/// Bytes per element of tensors of all elements of the normalised one, that nodes other than
/// products read and write.
double bytes_an_element(const spmd::SpmdProgram& program, Region region, std::int64_t elements) {
  std::int64_t bytes = 0;
  for (const Node& node : program.graph.nodes) {
    if (node.op == &ops::einsum || node.region != region) continue;
    for (const std::vector<int>* values : {&node.operands, &node.results})
      for (int value : *values)
        if (program.graph.type(value).elements() == elements)
          bytes += program.graph.type(value).bytes();
  }
  return static_cast<double>(bytes) / static_cast<double>(elements);
}

}  // namespace

TEST_CASE("batch normalisation in bf16 with ReLU moves 6 bytes an element forward, 16 backward") {
  for (const int devices : {1, 4}) {
    CAPTURE(devices);
    const spmd::SpmdProgram program =
        *plan_only(step_of(), DataParallel{}, Cluster::local(devices)).program;
    const std::int64_t elements = kBatch * kImage * kImage * kChannels;
    // x for the sums; x and the result of ReLU
    CHECK(bytes_an_element(program, Region::forward, elements) == 2 + 4);
    // ReLU: gradient, result and gradient; the sums: gradient and x; dx: both, and itself
    CHECK(bytes_an_element(program, Region::backward, elements) == 6 + 4 + 6);
  }
}

}  // namespace batch_norm_test
