// Training steps whose epilogues are joint or apart as measured.
#include <doctest/doctest.h>

#include "cuda/own_cache.h"
#include "emulation.h"
#include "support/mlp_step.h"

namespace tuned_step_test {

using namespace alpa;
using namespace alpa::testing;
using alpa::testing::OwnCache;

namespace {

constexpr emulation::ProductsOf kWithEpilogue{.epilogue = 0}, kWithout{.epilogue = 1};
constexpr int kLayers = 3, kSteps = 3;

struct Run {
  std::vector<double> losses;
  int kernels = 0;  ///< of a captured step; 0 on the CPU
};

Run run(const std::string& backend, bool tune) {
  Serial method;
  method.executor.tune = tune;
  Executable executable =
      parallelize(dense_mlp_step<nn::ReLU>(f32, kLayers), method, Cluster::local(1, backend));
  TrainState state = executable.init(0);
  Array x({f32, {64, 128}});
  for (std::int64_t i = 0; i < x.elements(); ++i)
    x.mutable_elements_as<float>()[i] = static_cast<float>(i * 37 % 101) * 0.01f - 0.5f;
  Run run;
  for (int i = 0; i < kSteps; ++i)
    run.losses.push_back(executable.run(state, {{"x", x}, {"y", x}}).loss());
  if (backend == "cuda") run.kernels = emulation::last_graph().kernels;
  return run;
}

void check_losses(const Run& run, const Run& expected) {
  for (int i = 0; i < kSteps; ++i)
    CHECK(run.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-5));
}

}  // namespace

TEST_CASE(
    "a step takes its epilogues apart where that was measured to be faster, one kernel each") {
  const OwnCache cache;
  const Run cpu = run("cpu", false);
  emulation::restart({});
  const Run joint = run("cuda", false);
  emulation::restart({.slow = {kWithout}});
  const Run still_joint = run("cuda", true);
  CHECK(still_joint.kernels == joint.kernels);
  std::filesystem::remove_all(OwnCache::path());
  for (const auto& slow : {kWithEpilogue, kWithout}) {  // the second time from the file
    emulation::restart({.slow = {slow}});
    const Run apart = run("cuda", true);
    // Bias and relu of two layers, a bias, relu's gradient of two, the gradients of three biases.
    CHECK(apart.kernels == joint.kernels + 8);
    check_losses(apart, cpu);
  }
  check_losses(joint, cpu);
  check_losses(still_joint, cpu);
  emulation::restart({});
}

}  // namespace tuned_step_test
