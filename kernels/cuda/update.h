#pragma once
/// Optimizers over all parameters in one launch, sums of gradients, and the squared norms of all:
/// contracts of `cpu::multi_tensor_adam`, `_sgd`, `_add` and `cpu::squared_norms`. The tensors are
/// a table in host memory, read before the call returns: it is a kernel parameter, so that
/// a captured launch keeps it.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// Elements that a block handles at a time. As many blocks run as are resident on the card.
inline constexpr std::int64_t kUpdateChunk = 8192;

/// Tensors that a launch takes; more are several launches, and for optimizers so are tensors of
/// other element types. A kernel's parameters are 32764 bytes at most.
inline constexpr int kMaxTableTensors = 368;

/// A scalar operand in device memory.
struct DeviceScalar {
  const void* data = nullptr;
  DType dtype = DType::f32;
};

/// One parameter: results may be the operands' buffers. `second` is Adam's v and absent for SGD,
/// where `first` is the velocity. Computed in double if one type is f64 or i32, else in float.
/// `copy`, if there is one, becomes the new w in a narrower type. Sums have w alone, and
/// `first_type` and `second_type` are its type.
struct UpdateTensor {
  const void *w = nullptr, *first = nullptr, *second = nullptr, *gradient = nullptr;
  void *new_w = nullptr, *new_first = nullptr, *new_second = nullptr, *copy = nullptr;
  DType w_type = DType::f32, first_type = DType::f32, second_type = DType::f32,
        gradient_type = DType::f32, copy_type = DType::bf16;
  std::int64_t elements = 0;
};

struct AdamSettings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool decoupled = false;  ///< AdamW
};
struct SgdSettings {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

/// `tensors`: `count` of them, host memory. learning_rate and step (from 1) are read by the device.
/// Tensors of f32, bf16 or f16 states and gradients at multiples of 16 bytes are read and written
/// in accesses of 16 bytes; for them the quotient and the root of Adam are the card's
/// approximations, the change of w thereby within 4 ulp of the formula's.
Status run_adam(const UpdateTensor* tensors, int count, const AdamSettings& settings,
                DeviceScalar learning_rate, DeviceScalar step, Stream stream);
Status run_sgd(const UpdateTensor* tensors, int count, const SgdSettings& settings,
               DeviceScalar learning_rate, Stream stream);

/// w + gradient of every tensor.
Status run_add(const UpdateTensor* tensors, int count, Stream stream);

/// A tensor and where the sum of its squares goes.
struct NormTensor {
  const void* x = nullptr;
  void* result = nullptr;
  DType type = DType::f32, result_type = DType::f32;
  std::int64_t elements = 0;
};

/// Every tensor's *result = Σ x², carried in double, in an order that size and type
/// alone determine. `tensors`: `count` of them, host memory. `workspace`: a double
/// per chunk of every tensor.
Status run_squared_norms(const NormTensor* tensors, int count, double* workspace, Stream stream);
constexpr std::int64_t chunks_of(std::int64_t elements) {
  return (elements + kUpdateChunk - 1) / kUpdateChunk;
}
constexpr std::int64_t chunks_of(const UpdateTensor& t) { return chunks_of(t.elements); }
constexpr std::int64_t chunks_of(const NormTensor& t) { return chunks_of(t.elements); }

}  // namespace alpa::cuda
