// src/cuda/dnn.cc — tries the cuDNN operations that future operators need
#include "dnn.h"

#include <fmt/core.h>

#include <cmath>
#include <functional>

#include "alpa/base/error.h"
#include "dnn_graph.h"
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

void run(const DnnPlan& plan, const std::vector<std::pair<std::int64_t, void*>>& tensors) {
  const DeviceBlock workspace = allocate_device(plan.workspace_bytes());
  plan.run(tensors, workspace.get());
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

/// Strides of [batch, channels, height, width] whose channels are neighbours.
Shape channels_last(const Shape& shape) {
  return {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
}

DnnDescriptor convolution_operation(const DnnDescriptor& x, const DnnDescriptor& w,
                                    const DnnDescriptor& y) {
  DnnDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Shape{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  for (const auto ones_of :
       {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES})
    convolution.set(ones_of, Shape{1, 1});
  convolution.finalize();
  DnnDescriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F);
  return std::move(operation.finalize());
}

/// 3×3, padding 1, 8 channels to 8, all ones: a result is the number of elements under the window.
void try_convolution(cudnnHandle_t handle) {
  constexpr std::size_t kSide = 8, kChannels = 8;
  const Shape image{1, kChannels, kSide, kSide}, window{kChannels, kChannels, 3, 3};
  const DnnDescriptor x = dnn_tensor(1, bf16, image, channels_last(image)),
                      w = dnn_tensor(2, bf16, window, channels_last(window)),
                      y = dnn_tensor(3, bf16, image, channels_last(image));
  const Bf16Tensor x_data(num_elements(image), ones), w_data(num_elements(window), ones),
      y_data(num_elements(image), zeros);
  run(DnnPlan(handle, convolution_operation(x, w, y)),
      {{1, x_data.data.get()}, {2, w_data.data.get()}, {3, y_data.data.get()}});
  const std::vector<float> results = y_data.download();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t row = i / kChannels / kSide, column = i / kChannels % kSide;
    const auto under = [](std::size_t at) { return at == 0 || at == kSide - 1 ? 2 : 3; };
    const auto expected = static_cast<float>(kChannels * under(row) * under(column));
    require(results[i] == expected, "element {} is {} instead of {}", i, results[i], expected);
  }
}

#if CUDNN_VERSION >= 91300
DnnDescriptor attention_operation(const Shape& shape, const Shape& strides) {
  const auto tensor = [&](std::int64_t number) { return dnn_tensor(number, bf16, shape, strides); };
  const Shape one{1, 1, 1, 1};
  DnnDescriptor operation(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, tensor(1));
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, tensor(2));
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, tensor(3));
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, tensor(4));
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, dnn_tensor(5, f32, one, one, true));
  return std::move(operation.finalize());
}

/// Equal queries and keys: every result is the mean of the values, which are 0 and 1 in turns.
void try_attention(cudnnHandle_t handle) {
  constexpr std::int64_t kHeads = 2, kLength = 64, kWidth = 64;
  const Shape shape{1, kHeads, kLength, kWidth},
      strides{kHeads * kLength * kWidth, kLength * kWidth, kWidth, 1};
  const Bf16Tensor q(num_elements(shape), ones), k(num_elements(shape), ones),
      v(num_elements(shape), [](std::size_t i) { return static_cast<float>(i / kWidth % 2); }),
      o(num_elements(shape), zeros);
  float scale = 0.125F;
  run(DnnPlan(handle, attention_operation(shape, strides)),
      {{1, q.data.get()}, {2, k.data.get()}, {3, v.data.get()}, {4, o.data.get()}, {5, &scale}});
  for (const float result : o.download())
    require(std::abs(result - 0.5F) <= 0.01F, "a result is {} instead of 0.5", result);
}
#else
void try_attention(cudnnHandle_t) {
  fail("cuDNN {}.{} has no such operation, 9.13 and later do", CUDNN_VERSION / 10000,
       CUDNN_VERSION / 100 % 100);
}
#endif

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
                    attention = failure_of([&] { try_attention(handle.get()); });
  if (convolution.empty() && attention.empty()) return "cuDNN convolution and attention run";
  const auto text = [](const std::string& why) {
    return why.empty() ? std::string("runs") : "fails: " + why;
  };
  return fmt::format("cuDNN convolution {}; attention {}", text(convolution), text(attention));
}

}  // namespace alpa::cuda
