#pragma once
/// Normalisation over the last dimension: contracts of `cpu::layer_norm`, `cpu::rms_norm` and their
/// gradients. A row's sums are taken in the type of its statistics, f32 or f64, by a
/// warp or a block; sums over rows are carried in double, in pieces that the shape alone
/// determines: two passes and no atomics, so they repeat bit for bit.
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
Status run_layer_norm_grad(const LayerNormLaunch& launch, const LayerNormGradTensors& tensors,
                           double* workspace, Stream stream);

/// Rows of a piece and number of pieces of the sums over rows.
struct RowPieces {
  std::int64_t per_piece = 1, count = 0;
};
constexpr RowPieces row_pieces(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t few_rows = 32, columns = 128, blocks = 512;  // blocks fill a card
  const std::int64_t side_by_side = (width + columns - 1) / columns;
  const std::int64_t most = (rows + few_rows - 1) / few_rows,
                     wanted = (blocks + side_by_side - 1) / side_by_side;
  if (most == 0) return {};
  const std::int64_t count = most < wanted ? most : wanted, per_piece = (rows + count - 1) / count;
  return {per_piece, (rows + per_piece - 1) / per_piece};
}

/// Scratch of `run_layer_norm_grad`: two doubles per column and piece.
constexpr std::int64_t layer_norm_grad_bytes(std::int64_t rows, std::int64_t width) {
  return row_pieces(rows, width).count * 2 * width * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace alpa::cuda
