// Which engine of cuDNN a convolution takes, what it takes where cuDNN has none, and a training
// step of convolutions on cards.
#include <cmath>

#include "alpa/alpa.h"
#include "cuda/device_run.h"
#include "emulation.h"
#include "emulation/on_machine.h"
#include "emulation/step_on_cards.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cuda/convolution_plan.h"
#include "src/cuda/cache_folder.h"
#include "src/cuda/dnn_convolution.h"
#include "src/ops/all_ops.h"
#include "support/error_text.h"

namespace alpa::convolution_test {
namespace {

using namespace testing;
using cuda::DnnPlans;
using cuda::MatmulOptions;

constexpr MatmulOptions kUntuned{.measured = false, .cached = false};
/// Engines of the emulation (convolution.cc): of f32 in TF32 and of 16 bits; Winograd's with tiles
/// of 4×4; Fourier's; of a copy of all tensors; without a workspace; of the fallback list.
constexpr int kTensorCores = 62, kSmallTiles = 75, kFourier = 4, kCopies = 70, kNoWorkspace = 28,
              kFallback = 0;

const Attributes kWindows{{"stride", std::vector<std::int64_t>{2, 1}},
                          {"dilation", std::vector<std::int64_t>{1, 1}},
                          {"padding", std::vector<std::int64_t>{0, 1, 1, 1}},
                          {"groups", std::int64_t{1}}};

/// x [2, 6, 5, 8], kernel [3, 3, 8, 16] and y [2, 3, 5, 16].
struct Problem {
  DType dtype;
  HostTensor x = random_tensor({dtype, {2, 6, 5, 8}}, 1),
             kernel = random_tensor({dtype, {3, 3, 8, 16}}, 2), y{TensorType{dtype, {2, 3, 5, 16}}};

  HostTensor on_card(DnnPlans& dnn, bool captured = false) const {
    return run_on_device(ops::conv2d, {x, kernel}, {y},
                         {.attributes = kWindows, .captured = captured, .dnn = &dnn})[0];
  }
  double error(DnnPlans& dnn, bool captured = false) const {
    const auto expected = run_kernel(cpu::conv2d, {x, kernel}, {y}, {.attributes = kWindows});
    return difference(on_card(dnn, captured), values_of(expected[0]));
  }
};

/// Of the largest result and 1: what rounding explains.
double bound(DType dtype, bool tf32 = false) {
  if (tf32) return 2e-2;
  return dtype == f32 ? 1e-5 : epsilon(dtype);
}

/// The engine that a convolution is run on.
int engine_of(DType dtype, const MatmulOptions& options) {
  DnnPlans dnn(options);
  CHECK(Problem{dtype}.error(dnn) <= bound(dtype, options.tf32));
  return emulation::last_engine();
}

TEST_CASE("a convolution is right with cuDNN and without") {
  DnnPlans first(kUntuned), second(kUntuned);  // one line on stderr
  for (DnnPlans* dnn : {&first, &second})
    for (const DType dtype : {f32, bf16}) CHECK(Problem{dtype}.error(*dnn) <= bound(dtype));
}

TEST_CASE("the first engine that keeps numerics and workspace is taken, without tuning") {
  const On machine({});
  CHECK(engine_of(bf16, kUntuned) == kTensorCores);
  CHECK(engine_of(f32, kUntuned) == kCopies);
  CHECK(engine_of(f16, kUntuned) == kTensorCores);
  CHECK(engine_of(f32, {.tf32 = true, .measured = false, .cached = false}) == kTensorCores);
}

TEST_CASE("transforms that lose digits are not for f32, and large tiles for no type") {
  const MatmulOptions rounding{.tf32 = true, .measured = false, .cached = false};
  const On machine({.refused_engines = {kTensorCores}});
  for (const DType dtype : {bf16, f16}) CHECK(engine_of(dtype, kUntuned) == kSmallTiles);
  CHECK(engine_of(f32, rounding) == kSmallTiles);
  CHECK(engine_of(f32, kUntuned) == kCopies);
  emulation::restart({.refused_engines = {kTensorCores, kSmallTiles}});
  CHECK(engine_of(bf16, kUntuned) == kFourier);
  emulation::restart({.refused_engines = {kTensorCores, kCopies, kNoWorkspace, kFallback}});
  CHECK(engine_of(f32, kUntuned) == -1);
  emulation::restart(
      {.refused_engines = {kTensorCores, kSmallTiles, kFourier, kCopies, kNoWorkspace, kFallback}});
  for (const DType dtype : {bf16, f16}) CHECK(engine_of(dtype, kUntuned) == -1);
}

TEST_CASE("convolutions take the versions of cuDNN that attention does not") {
  const On machine({.dnn_version = 90000});
  CHECK(engine_of(bf16, kUntuned) == kTensorCores);
}

TEST_CASE("TF32 rounds f32 only where it is allowed") {
  const On machine({});
  DnnPlans exact(kUntuned), rounding({.tf32 = true, .measured = false, .cached = false});
  const Problem problem{f32};
  CHECK(problem.error(exact) <= 1e-5);
  CHECK(problem.error(rounding) > 1e-4);
}

TEST_CASE("engines that cuDNN refuses are passed over, those of the fallback list come last") {
  const On machine({.refused_engines = {kCopies}});
  CHECK(engine_of(f32, kUntuned) == kNoWorkspace);
  emulation::restart({.refused_engines = {kCopies, kNoWorkspace}});
  CHECK(engine_of(f32, kUntuned) == kFallback);
}

TEST_CASE("the plain kernel computes what no engine of cuDNN takes, and what none can run") {
  const std::vector<int> all = {kTensorCores, kCopies, kNoWorkspace, kFallback};
  const On machine({.refused_engines = all});
  DnnPlans untuned(kUntuned), tuned;
  const Problem problem{f32};
  CHECK(problem.error(untuned) <= bound(f32));
  emulation::restart({.failing_engines = all});
  CHECK(problem.error(tuned) <= bound(f32));
  CHECK(emulation::last_engine() == -1);
}

TEST_CASE("the fastest engine is taken, remembered, and taken by other cards and processes, too") {
  const On machine({.slow_engines = {kCopies, kFallback}});
  CHECK(engine_of(f32, {}) == kNoWorkspace);
  emulation::restart({.slow_engines = {kNoWorkspace, kFallback}});
  CHECK(engine_of(f32, {}) == kNoWorkspace);
  CHECK(engine_of(f32, kUntuned) == kCopies);
  std::filesystem::remove_all(cuda::cache_folder());
  CHECK(engine_of(f32, {}) == kCopies);
}

TEST_CASE("a remembered engine that no longer fits is measured anew") {
  const On machine({.slow_engines = {kCopies, kFallback}});
  CHECK(engine_of(f32, {}) == kNoWorkspace);
  emulation::restart({.refused_engines = {kNoWorkspace}, .slow_engines = {kFallback}});
  CHECK(engine_of(f32, {}) == kCopies);
}

TEST_CASE("an engine that fails when it was not tried is an error with cuDNN's reason") {
  const On machine({.failing_engines = {kCopies}});
  DnnPlans dnn(kUntuned);
  const std::string text = error_of([&] { Problem{f32}.on_card(dnn); });
  CAPTURE(text);
  CHECK(
      text.starts_with("cudnnBackendExecute [the engine fails]: CUDNN_STATUS_EXECUTION_FAILED "
                       "(5000), at dnn_graph.cc:"));
}

TEST_CASE("extents that do not belong together are an error with cuDNN's reason") {
  cuda::ConvolutionLaunch launch{.shape = {.batch = 1, .channels = 4, .features = 6}};
  const auto text = [&] { return error_of([&] { cuda::dnn_convolution(launch); }); };
  CHECK(text() == "no error");
  launch.shape.groups = 4;
  CHECK(text().starts_with(
      "cudnnBackendFinalize [0 != wDimA[0] % g]: CUDNN_STATUS_BAD_PARAM (2000), at "));
  launch.shape.groups = 1, launch.shape.h.in = 3;
  CHECK(text().starts_with(
      "cudnnBackendFinalize [is_valid_spatial_dim]: CUDNN_STATUS_BAD_PARAM (2000), at "));
}

TEST_CASE("a captured convolution is its engine and a kernel that transposes the kernel") {
  const On machine({});
  DnnPlans dnn(kUntuned);
  CHECK(Problem{bf16}.error(dnn, true) <= epsilon(bf16));
  CHECK(emulation::last_graph().kernels == 2);
  CHECK(emulation::last_graph().copies + emulation::last_graph().clears == 0);
}

TrainingStep convolution_step() {
  const nn::Conv2d first(8, {3, 3}, {.stride = {2, 2}}), depthwise(8, {3, 3}, {.groups = 8}),
      last(3, {2, 2}, {.padding = nn::Padding::valid});
  return training_step(
      {{"x", {f32, {6, 9, 8, 3}}}, {"y", {f32, {6, 4, 3, 3}}}},
      [=](const Batch& batch) {
        const Value hidden = relu(nn::BatchNorm()(depthwise(relu(first(batch["x"])))));
        return nn::mean_squared_error(last(hidden), batch["y"]);
      },
      optim::Sgd{.learning_rate = 0.1});
}

std::map<std::string, Array> images() {
  std::map<std::string, Array> batch = {{"x", Array({f32, {6, 9, 8, 3}})},
                                        {"y", Array({f32, {6, 4, 3, 3}})}};
  for (auto& [name, array] : batch) {
    float next = 0;
    for (float& x : array.mutable_elements_as<float>()) x = std::sin(next += 0.7F);
  }
  return batch;
}

TEST_CASE(
    "a step of convolutions and a batch norm gives the CPU's losses on one card and several") {
  check_step_on_cards(convolution_step(), images(), 1e-5);
}

}  // namespace
}  // namespace alpa::convolution_test
