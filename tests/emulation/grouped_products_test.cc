// Steps whose queries, keys and values are one product, and the gradients of their weights another:
// losses are the CPU's, with every method, and launches are fewer. Where cuBLASLt refuses the
// batch, or it was measured to be slower, the products are queued one by one.
#include <doctest/doctest.h>

#include "alpa/alpa.h"
#include "cublasLt.h"
#include "emulation.h"
#include "on_machine.h"
#include "src/cuda/choice_file.h"
#include "src/lower/side_by_side.h"
#include "src/runtime/executor.h"
#include "src/spmd/einsum_group.h"
#include "support/nightly.h"

namespace grouped_products_test {

using namespace alpa;
using testing::On;

namespace {

constexpr std::int64_t kBatch = 8, kTokens = 4, kWidth = 32;
constexpr int kSteps = 3;

struct Layer {
  std::int64_t key_heads = 4;
  Precision precision = Precision::as_written;
  bool bias = true, shared = false;
};

/// A step of one or two attentions over four heads; with `shared` both are one layer.
TrainingStep attention_step(const Layer& layer) {
  const nn::SelfAttentionOptions options{.key_heads = layer.key_heads, .bias = layer.bias};
  const nn::SelfAttention first(kWidth, 4, options), second(kWidth, 4, options);
  const TensorType rows{f32, {kBatch, kTokens, kWidth}};
  return training_step({{"x", rows}, {"y", rows}},
                       [=](const Batch& b) {
                         const Value h = first(b["x"]);
                         return nn::mean_squared_error(layer.shared ? first(h) : second(h), b["y"]);
                       },
                       optim::Adam{.learning_rate = 0.01}, {.precision = layer.precision});
}

struct Run {
  std::vector<double> losses;
  int groups = 0, launches = 0;  ///< of the first device's groups
  int kernels = 0;               ///< of the list that was captured last
};

Run run(const Layer& layer, const Method& method, int devices, const std::string& backend) {
  Executable executable =
      parallelize(attention_step(layer), method, Cluster::local(devices, backend));
  TrainState state = executable.init(0);
  Array x({f32, {kBatch, kTokens, kWidth}});
  for (std::int64_t i = 0; i < x.elements(); ++i)
    x.mutable_elements_as<float>()[i] = static_cast<float>(i * 37 % 101) * 0.02f - 1.0f;
  Run run;
  for (int i = 0; i < kSteps; ++i)
    run.losses.push_back(executable.run(state, {{"x", x}, {"y", x}}).loss());
  const Graph& graph = executable.planned().program->graph;
  const lower::DeviceProgram& device = executable.planned().lowered->firsts.front();
  for (const lower::InstructionList& list : device.lists)
    for (const lower::Instruction& instruction : list.instructions)
      if (instruction.kind == lower::Instruction::Kind::compute &&
          spmd::is_einsum_group(graph.nodes[instruction.node]))
        ++run.groups, run.launches += lower::launches_of(device, graph, instruction);
  if (backend == "cuda") run.kernels = emulation::last_graph().kernels;
  return run;
}

void check_losses(const Run& run, const Run& expected, double epsilon) {
  for (int i = 0; i < kSteps; ++i)
    CHECK(run.losses[i] == doctest::Approx(expected.losses[i]).epsilon(epsilon));
}

/// Against the CPU on one device; all groups are one launch.
void check(const Layer& layer, const Method& method, int devices, int micro_batches,
           int least_groups) {
  CAPTURE(layer.key_heads);
  CAPTURE(layer.shared);
  CAPTURE(devices);
  CAPTURE(micro_batches);
  const bool rounded = layer.precision == Precision::bf16_mixed;
  CAPTURE(rounded);
  const Run got = run(layer, method, devices, "cuda"),
            expected = run(layer, Serial{.num_micro_batches = micro_batches}, 1, "cpu");
  CHECK(expected.groups == 0);
  CHECK(got.groups >= least_groups);
  CHECK(got.launches == got.groups);
  check_losses(got, expected, rounded ? 2e-2 : 1e-4);
}

}  // namespace

TEST_CASE("on one device queries, keys and values are one launch each way") {
  const On machine({});
  for (Precision precision : {Precision::as_written, Precision::bf16_mixed})
    for (int micro_batches : {1, 4}) {
      const bool is_daily = (micro_batches == 4) == (precision == Precision::bf16_mixed);
      if (!testing::sampled(is_daily, true)) continue;
      const Serial method{.num_micro_batches = micro_batches};
      check({.precision = precision}, method, 1, micro_batches, 4);
      check({.key_heads = 2, .precision = precision}, method, 1, micro_batches, 4);
    }
  check({.bias = false}, Serial{}, 1, 1, 4);
  check({.shared = true}, Serial{.num_micro_batches = 2}, 1, 2, 2);
}

TEST_CASE("so they are on several devices, where the plan keeps them on one mesh and alike") {
  const On machine({});
  for (int devices : testing::sampled<std::vector<int>>({4}, {2, 4})) {
    check({}, DataParallel{}, devices, 1, 4);
    check({.precision = Precision::bf16_mixed}, DataParallel{.num_micro_batches = 2}, devices, 2,
          4);
    check({.precision = Precision::bf16_mixed}, Zero2Parallel{}, devices, 1, 4);
    check({}, Zero3Parallel{}, devices, 1, 2);
    check({.key_heads = 2}, ShardParallel{.solver_seconds = 2}, devices, 1, 2);
  }
}

TEST_CASE("where cuBLASLt refuses the batch, or it is slower, products are queued one by one") {
  const Serial untuned = [] {
    Serial method;
    method.executor.tune = false;
    return method;
  }();
  const Layer layer;
  const Run cpu = run(layer, Serial{}, 1, "cpu");
  int together = 0;
  {
    const On machine({});
    together = run(layer, untuned, 1, "cuda").kernels;
  }
  const auto apart = [&](const emulation::Machine& with, const Serial& method) {
    const On machine(with);
    Run got = run(layer, method, 1, "cuda");
    CHECK(got.kernels == together + 4 * 2);
    check_losses(got, cpu, 1e-4);
    got = run(layer, method, 1, "cuda");  // measurements from the file
    CHECK(got.kernels == together + 4 * 2);
  };
  apart({.refused = {{.batched = 1}}}, untuned);
  apart({.invalid = {{.batched = 1}}}, untuned);
  apart({.failing = {{.batched = 1}}}, Serial{});
  apart({.slow = {{.batched = 1}}}, Serial{});
  const On machine({});
  const Run again = run(layer, untuned, 1, "cuda");
  CHECK(again.kernels == together);
  check_losses(again, cpu, 1e-4);
}

TEST_CASE("a batch that is refused only when its form is tried is left for products one by one") {
  const Layer layer;
  const Run cpu = run(layer, Serial{}, 1, "cpu");
  const On machine({});
  Serial untuned;
  untuned.executor.tune = false;
  const int together = run(layer, untuned, 1, "cuda").kernels;
  run(layer, Serial{}, 1, "cuda");
  const std::string file =
      cuda::choice_file_name("products", "alpa emulated device", cublasLtGetVersion());
  for (const auto& [key, choice] : cuda::read_choices(file))  // algorithms stay remembered
    if (key.starts_with("form of ")) cuda::add_choice(file, key, "sideways");
  emulation::restart({.failing = {{.batched = 1}}});
  const Run got = run(layer, Serial{}, 1, "cuda");
  CHECK(got.kernels == together + 4 * 2);
  check_losses(got, cpu, 1e-4);
}

}  // namespace grouped_products_test
