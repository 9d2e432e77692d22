#pragma once
/// Products with quantised kernels: contracts of `cpu::quantized_matmul` and
/// `cpu::quantized_matmul_grad`. Blocks are decoded as they are read.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

struct QuantizedLaunch {
  std::int64_t rows = 0, features = 0, blocks = 0;
  std::int64_t bytes = 0;  ///< of a block
  bool backward = false;   ///< x [rows, features] → y [rows, blocks · 32], else the other way
};

Status run_quantized_matmul(const QuantizedLaunch& launch, const float* x,
                            const std::uint8_t* kernel, float* y, Stream stream);

}  // namespace alpa::cuda
