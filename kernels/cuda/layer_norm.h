#pragma once
/// Normalisation over the last dimension: contracts of `cpu::layer_norm`, `cpu::rms_norm` and their
/// gradients. A row's sums are taken in the type of its statistics, f32 or f64, by a
/// warp or a block; sums over rows in pieces (column_pieces.h).
#include "kernels/cuda/column_pieces.h"
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

struct LayerNormLaunch {
  /// of x, y, scale, bias and their gradients; mean and rstd are f32, of f64 f64
  DType dtype = DType::f32;
  std::int64_t rows = 0, width = 1;
  double epsilon = 0;  ///< forward alone
};

/// Of rms_norm, bias, mean and dbias are null.
struct LayerNormTensors {
  const void *x, *scale, *bias;
  void *y, *mean, *rstd;
};
Status run_layer_norm(const LayerNormLaunch& launch, const LayerNormTensors& tensors,
                      Stream stream);

/// `addend`, if it is not null, is added to dx.
struct LayerNormGradTensors {
  const void *dy, *x, *scale, *mean, *rstd, *addend;
  void *dx, *dscale, *dbias;
};
/// `workspace`: `column_pieces_bytes`.
Status run_layer_norm_grad(const LayerNormLaunch& launch, const LayerNormGradTensors& tensors,
                           double* workspace, Stream stream);

}  // namespace alpa::cuda
