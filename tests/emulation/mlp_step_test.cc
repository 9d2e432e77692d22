// What a captured step of a 10-layer MLP launches, and that its numbers are the CPU's.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <random>

#include "emulation.h"
#include "support/mlp_step.h"

namespace mlp_step_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr int kLayers = 10, kSteps = 4;

std::map<std::string, Array> random_batch(DType dtype) {
  std::map<std::string, Array> batch;
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (const char* name : {"x", "y"}) {
    Array array({f32, {64, 128}});
    for (float& x : array.mutable_elements_as<float>()) x = normal(engine);
    batch.emplace(name, array.cast(dtype));
  }
  return batch;
}

std::vector<double> losses(const TrainingStep& step, const std::string& backend, DType dtype) {
  Serial method;
  method.executor.tune = false;  // a measurement might take epilogues apart
  Executable executable = parallelize(step, method, Cluster::local(1, backend));
  TrainState state = executable.init(0);
  const std::map<std::string, Array> batch = random_batch(dtype);
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) losses.push_back(executable.run(state, batch).loss());
  return losses;
}

template <class Activation>
void check_step(const char* name, DType dtype) {
  CAPTURE(name);
  CAPTURE(name_of(dtype));
  const TrainingStep step = dense_mlp_step<Activation>(dtype, kLayers);
  const std::vector<double> cuda = losses(step, "cuda", dtype), cpu = losses(step, "cpu", dtype);
  const emulation::GraphNodes nodes = emulation::last_graph();
  fmt::print("10 layers, {}, {}: {} kernels, {} copies, {} clears\n", name, name_of(dtype),
             nodes.kernels, nodes.copies, nodes.clears);
  CHECK(nodes.kernels <= 35);
  CHECK(nodes.copies == 0);
  CHECK(nodes.clears + nodes.others == 0);
  for (int i = 0; i < kSteps; ++i)
    CHECK(cuda[i] == doctest::Approx(cpu[i]).epsilon(dtype == f32 ? 1e-5 : 2e-2));
}

}  // namespace

TEST_CASE("a captured step of ten nn::Dense layers is at most 35 kernels and no copy") {
  emulation::restart({});
  for (const DType dtype : {f32, bf16}) {
    check_step<nn::ReLU>("ReLU", dtype);
    check_step<nn::GELU>("GELU", dtype);
  }
}

}  // namespace mlp_step_test
