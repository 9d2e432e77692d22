#pragma once
/// Optimizers over all parameters in one launch, and the norm of all gradients: contracts of
/// `cpu::adam_update` and `cpu::sgd_update`. The tensors are a table in device memory, which the caller
/// fills once from the host's.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

inline constexpr std::int64_t kUpdateChunk = 8192;  ///< elements that a block updates at a time

/// A scalar operand in device memory.
struct DeviceScalar {
  const void* data = nullptr;
  DType dtype = DType::f32;
};

/// One parameter: results may be the operands' buffers. `second` is Adam's v and absent for SGD, where
/// `first` is the velocity. Computed in double if one type is f64 or i32, else in float.
struct UpdateTensor {
  const void *w = nullptr, *first = nullptr, *second = nullptr, *gradient = nullptr;
  void *new_w = nullptr, *new_first = nullptr, *new_second = nullptr;
  DType w_type = DType::f32, first_type = DType::f32, second_type = DType::f32, gradient_type = DType::f32;
  std::int64_t elements = 0;
  std::int64_t first_chunk = 0;  ///< set by `number_chunks`
};

/// Sets first_chunk of all `count` tensors (host memory) and returns the number of chunks.
std::int64_t number_chunks(UpdateTensor* tensors, int count);

struct AdamSettings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool decoupled = false;  ///< AdamW
};
struct SgdSettings {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

/// `tensors` is device memory, numbered by `number_chunks`, which returned `chunks`. learning_rate and step
/// (from 1) are read by the device.
Status run_adam(const UpdateTensor* tensors, int count, std::int64_t chunks, const AdamSettings& settings,
                DeviceScalar learning_rate, DeviceScalar step, Stream stream);
Status run_sgd(const UpdateTensor* tensors, int count, std::int64_t chunks, const SgdSettings& settings,
               DeviceScalar learning_rate, Stream stream);

/// *result (a double) = Σ gradient² over all tensors, carried in double, in an order that the sizes alone
/// determine. Only gradient, gradient_type, elements and first_chunk are read. `workspace`:
/// squared_norm_workspace_bytes(chunks).
Status run_squared_norm(const UpdateTensor* tensors, int count, std::int64_t chunks, double* workspace,
                        double* result, Stream stream);
constexpr std::int64_t squared_norm_workspace_bytes(std::int64_t chunks) { return chunks * 8; }

}  // namespace alpa::cuda
