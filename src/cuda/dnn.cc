// src/cuda/dnn.cc — tries a convolution and an attention of cuDNN
#include <fmt/core.h>

#include <cmath>
#include <functional>

#include "alpa/base/error.h"
#include "discovery.h"
#include "dnn_attention.h"
#include "dnn_convolution.h"
#include "dnn_library.h"
#include "src/base/half.h"
#include "status.h"

namespace alpa::cuda {
namespace {

/// Elements of bf16 on the device.
struct Bf16Tensor {
  DeviceBlock data;
  std::size_t count;

  Bf16Tensor(std::size_t count, const std::function<float(std::size_t)>& element)
      : data(allocate_device(static_cast<std::int64_t>(count * sizeof(Bf16)))), count(count) {
    std::vector<Bf16> elements(count);
    for (std::size_t i = 0; i < count; ++i) elements[i] = to_bf16(element(i));
    check(cudaMemcpy(data.get(), elements.data(), count * sizeof(Bf16), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

  std::vector<float> download() const {
    std::vector<Bf16> elements(count);
    check(cudaMemcpy(elements.data(), data.get(), count * sizeof(Bf16), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    std::vector<float> values;
    for (const Bf16 element : elements) values.push_back(to_float(element));
    return values;
  }
};

float ones(std::size_t) { return 1; }
float zeros(std::size_t) { return 0; }

/// Runs the operations on the first engine that takes them.
void run(cudnnHandle_t handle, std::span<const DnnDescriptor> operations, DnnTensors tensors) {
  const std::vector<DnnEngine> engines = dnn_engines({.handle = handle}, operations);
  require(!engines.empty(), "cuDNN proposes no engine");
  for (std::size_t i = 0; i < engines.size(); ++i) try {
      const DnnPlan plan({.handle = handle}, engines[i]);
      const DeviceBlock workspace = allocate_device(plan.workspace_bytes());
      DnnPacks packs;
      plan.run(packs.of(tensors, workspace.get()), nullptr);
      return check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    } catch (const Error&) {
      if (i + 1 == engines.size()) throw;
    }
}

/// 3×3, padding 1, 8 channels to 8, all ones: a result is the number of elements under the window.
void try_convolution(cudnnHandle_t handle) {
  constexpr std::size_t kSide = 8, kChannels = 8;
  const kernels::WindowDim side{.in = kSide, .out = kSide, .size = 3, .pad = 1};
  const ConvolutionLaunch launch{
      ConvolutionResult::y,
      bf16,
      {.batch = 1, .channels = kChannels, .features = kChannels, .h = side, .w = side}};
  const Bf16Tensor x(launch.x_elements(), ones), kernel(launch.kernel_elements(), ones),
      y(launch.y_elements(), zeros);
  const std::pair<std::int64_t, void*> tensors[] = {
      {kDnnX, x.data.get()}, {kDnnKernel, kernel.data.get()}, {kDnnY, y.data.get()}};
  run(handle, convolution_problem(launch).operations(), tensors);
  const std::vector<float> results = y.download();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t row = i / kChannels / kSide, column = i / kChannels % kSide;
    const auto under = [](std::size_t at) { return at == 0 || at == kSide - 1 ? 2 : 3; };
    const auto expected = static_cast<float>(kChannels * under(row) * under(column));
    require(results[i] == expected, "element {} is {} instead of {}", i, results[i], expected);
  }
}

/// Equal queries and keys: every result is the mean of the values, which are 0 and 1 in turns.
void try_attention(cudnnHandle_t handle) {
  constexpr std::int64_t kHeads = 2, kLength = 64, kWidth = 64,
                         kElements = kHeads * kLength * kWidth;
  const AttentionPiece piece = attention_piece({.shape = {.dtype = bf16,
                                                          .queries = kLength,
                                                          .heads = kHeads,
                                                          .keys = kLength,
                                                          .key_heads = kHeads,
                                                          .width = kWidth,
                                                          .scale = 0.125,
                                                          .visible = kLength}});
  const DnnAttentionNumbers numbers(piece);
  const auto value = [](std::size_t i) { return static_cast<float>(i / (kHeads * kWidth) % 2); };
  const Bf16Tensor q(kElements, ones), k(kElements, ones), v(kElements, value), o(kElements, zeros);
  const DeviceBlock lse = allocate_device(kHeads * kLength * sizeof(float));
  std::vector<std::pair<std::int64_t, void*>> tensors = {{kDnnQ, q.data.get()},
                                                         {kDnnK, k.data.get()},
                                                         {kDnnV, v.data.get()},
                                                         {kDnnO, o.data.get()},
                                                         {kDnnLse, lse.get()}};
  tensors.insert(tensors.end(), numbers.tensors.begin(), numbers.tensors.end());
  run(handle, dnn_attention(piece), tensors);
  for (const float result : o.download())
    require(std::abs(result - 0.5F) <= 0.01F, "a result is {} instead of 0.5", result);
}

/// "" or why it failed.
std::string failure_of(const std::function<void()>& trial) {
  try {
    trial();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string try_dnn(std::int32_t device) {
  check(cudaSetDevice(device), "cudaSetDevice");
  if (const std::string absent = failure_of([] { dnn(); }); !absent.empty()) return absent;
  const DnnHandle handle = make_dnn_handle();
  const std::string convolution = failure_of([&] { try_convolution(handle.get()); }),
                    attention = failure_of([&] {
                      require_dnn(kLeastAttentionVersion);
                      try_attention(handle.get());
                    });
  if (convolution.empty() && attention.empty()) return "cuDNN convolution and attention run";
  const auto text = [](const std::string& why) {
    return why.empty() ? std::string("runs") : "fails: " + why;
  };
  return fmt::format("cuDNN convolution {}; attention {}", text(convolution), text(attention));
}

}  // namespace alpa::cuda
