#pragma once
/// Σ x and Σ x·y of every column of matrices: contracts of `cpu::channel_sums`, where y is x, and
/// `cpu::channel_products`. Each is read once, in 16 bytes where rows allow. Products of bf16 and
/// f16 are exact in f32; four of them are added in f32, all else in double.
#include "kernels/cuda/column_pieces.h"
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

struct ChannelSums {
  DType dtype = DType::f32;  ///< of x and y; the sums are f32, of f64 f64
  std::int64_t rows = 0, width = 1;
};

/// `y` null: x itself. `workspace`: `column_pieces_bytes`.
Status run_channel_sums(const ChannelSums& launch, const void* x, const void* y, void* sums,
                        void* products, double* workspace, Stream stream);

}  // namespace alpa::cuda
