// Operators of a program with CUDA launches of its own.
#include <cmath>

#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "api/custom_ops.h"
#include "cuda_runtime.h"
#include "emulation/on_machine.h"
#include "support/error_text.h"

namespace custom_op_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

void __global__ forward_rows(const float* x, const float* gain, float* y, float* scale,
                             std::int64_t width, std::int64_t rows, double epsilon) {
  const std::int64_t r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double squares = 0;
  for (std::int64_t i = r * width; i < (r + 1) * width; ++i)
    squares += static_cast<double>(x[i]) * x[i];
  const double by = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
  scale[r] = static_cast<float>(by);
  for (std::int64_t c = 0; c < width; ++c)
    y[r * width + c] = static_cast<float>(x[r * width + c] * by * gain[c]);
}

/// A thread per column, after the rows' sums, which the scratch holds.
void __global__ sum_rows(const float* dy, const float* x, const float* gain, double* sums,
                         std::int64_t width, std::int64_t rows) {
  const std::int64_t r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  sums[r] = 0;
  for (std::int64_t c = 0; c < width; ++c)
    sums[r] += static_cast<double>(dy[r * width + c]) * gain[c] * x[r * width + c];
}

void __global__ backward_columns(const float* dy, const float* x, const float* gain,
                                 const float* scale, const double* sums, float* dx, float* dgain,
                                 std::int64_t width, std::int64_t rows) {
  const std::int64_t c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= width) return;
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t i = r * width + c;
    const double by = scale[r], share = sums[r] * by * by / static_cast<double>(width);
    dx[i] = static_cast<float>(by * (static_cast<double>(dy[i]) * gain[c] - x[i] * share));
    total += static_cast<double>(dy[i]) * x[i] * by;
  }
  dgain[c] = static_cast<float>(total);
}

template <class... Parameters>
void launch(void* stream, void (*kernel)(Parameters...), std::int64_t threads,
            std::type_identity_t<Parameters>... arguments) {
  if (threads == 0) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = static_cast<unsigned>((threads + 63) / 64), config.blockDim = 64;
  config.stream = static_cast<cudaStream_t>(stream);
  require(cudaLaunchKernelEx(&config, kernel, arguments...) == cudaSuccess,
          "the launch of a program's operator failed");
}

void forward(const OpCall& call, void* stream) {
  launch(stream, forward_rows, call.results[1].type.elements(), call.operands[0].as<float>(),
         call.operands[1].as<float>(), call.results[0].as<float>(), call.results[1].as<float>(),
         call.operands[1].type.shape[0], call.results[1].type.elements(),
         call.attributes.real("epsilon"));
}

void backward(const OpCall& call, void* stream) {
  const auto in = [&](int i) { return call.operands[i].as<float>(); };
  const std::int64_t width = call.operands[2].type.shape[0],
                     rows = call.operands[3].type.elements();
  auto* const sums = static_cast<double*>(call.scratch);
  launch(stream, sum_rows, rows, in(0), in(1), in(2), sums, width, rows);
  launch(stream, backward_columns, width, in(0), in(1), in(2), in(3), sums,
         call.results[0].as<float>(), call.results[1].as<float>(), width, rows);
}

std::int64_t sums_of_rows(const OpCall& call) { return 8 * call.operands[3].type.elements(); }

TrainingStep step_with(const CustomOp& norm) {
  const nn::Dense layer(16, {.name = "layer"});
  const nn::LayerId id("norm");
  return training_step(
      {{"x", {f32, {24, 16}}}},
      [=](const Batch& b) {
        const Value y = layer(b["x"]);
        const nn::Scope in(y, id, "norm");
        const Value gain = in.parameter("gain", {y.dim(-1)}, ones);
        return mean(square(norm({y, gain}, {{"epsilon", 1e-6}})[0] - b["x"]));
      },
      optim::Sgd{.learning_rate = 0.5, .momentum = 0.9});
}

struct Run {
  std::vector<double> losses, gain;
  std::int64_t planned, measured;
};

Run run(const CustomOp& norm, const Method& method, int devices, const std::string& backend) {
  const Executable train = parallelize(step_with(norm), method, Cluster::local(devices, backend));
  TrainState state = train.init(0);
  std::vector<float> x(24 * 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  Run run;
  for (int i = 0; i < 5; ++i)
    run.losses.push_back(train.run(state, {{"x", Array(x, {24, 16})}}).loss());
  run.gain = state["norm.gain"].to_host().to_doubles();
  run.planned = train.memory_bytes(), run.measured = train.measured_bytes(state);
  return run;
}

}  // namespace

TEST_CASE("an operator with a CUDA launch trains on cards as on CPU devices, in planned memory") {
  const On machine({.devices = 4});
  const CustomOp norm = define_rms_norm("tests.cuda_", forward, backward, sums_of_rows);
  const Run expected = run(norm, Serial{}, 1, "cpu");
  CHECK(expected.losses.back() < expected.losses.front());
  for (const auto& [method, devices] : std::vector<std::pair<Method, int>>{
           {Serial{}, 1}, {DataParallel{}, 4}, {Zero3Parallel{}, 2}, {ShardParallel{}, 4}}) {
    const Run found = run(norm, method, devices, "cuda");
    CHECK(found.planned == found.measured);
    for (std::size_t i = 0; i < found.losses.size(); ++i)
      CHECK(found.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-5));
    for (std::size_t i = 0; i < found.gain.size(); ++i)
      CHECK(found.gain[i] == doctest::Approx(expected.gain[i]).epsilon(1e-5));
  }
}

TEST_CASE("an operator without a CUDA launch is refused on cards, by name") {
  const On machine({.devices = 4});
  const CustomOp norm = define_rms_norm("tests.cpu_");
  CHECK(error_of([&] { run(norm, Serial{}, 1, "cuda"); }) ==
        "device 0: instruction 2 'norm/tests.cpu_rms_norm' (tests.cpu_rms_norm, forward): "
        "tests.cpu_rms_norm has no CUDA launch; set OpDefinition::cuda, or run it on CPU devices");
}

}  // namespace custom_op_test
