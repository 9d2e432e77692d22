// What a mixed-precision loss over many classes reads and writes.
#include <doctest/doctest.h>

#include "alpa/alpa.h"
#include "src/ops/all_ops.h"
#include "src/spmd/program.h"

namespace cross_entropy_test {

using namespace alpa;

namespace {

constexpr std::int64_t kRows = 24, kClasses = 1000;

/// Bytes that nodes other than products read and write, of those with a tensor of all logits.
std::int64_t bytes_of_logits(const spmd::SpmdProgram& program) {
  std::int64_t total = 0;
  for (const Node& node : program.graph.nodes) {
    std::int64_t bytes = 0, largest = 0;
    for (const std::vector<int>* values : {&node.operands, &node.results})
      for (int value : *values) {
        const TensorType& type = program.graph.type(value);
        bytes += type.bytes(), largest = std::max(largest, type.elements());
      }
    if (largest == kRows * kClasses && node.op != &ops::einsum) total += bytes;
  }
  return total;
}

}  // namespace

TEST_CASE("a loss of bf16 logits reads them twice and writes their gradient once, in bf16") {
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{}, CrossEntropyOptions{.label_smoothing = 0.1, .ignored_label = -1}}) {
    const TrainingStep step =
        training_step({{"x", {f32, {kRows, 16}}}, {"y", {i32, {kRows}}}},
                      [&, head = nn::Dense(kClasses, {.bias = false})](const Batch& b) {
                        return nn::cross_entropy(head(b["x"]), b["y"], options);
                      },
                      optim::Sgd{}, {.precision = bf16_mixed});
    const std::int64_t numbers = kRows * 4;  // labels, and numbers per row
    CHECK(bytes_of_logits(*plan_only(step, Serial{}, Cluster::local(1)).program) ==
          6 * kRows * kClasses + 3 * numbers + 4 * numbers);
  }
}

}  // namespace cross_entropy_test
