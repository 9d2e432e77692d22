#pragma once
/// Kernels that copy or generate elements: strided and box copies (transposition, broadcasting,
/// slicing, gathering), constants, indices.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// y[y_begin + Σ i_d·y_stride_d] = x[x_begin + Σ i_d·x_stride_d] for all indices i below `extent`;
/// strides in elements, x's may be 0. No two indices may stand at one place of y.
struct CopyLaunch {
  int element = 4;  ///< bytes of an element: 1, 2, 4, 8 or 16
  int dims = 0;     ///< none of extent 1; neighbours that could be one dimension are one
  std::int64_t extent[kMaxDims] = {}, x_stride[kMaxDims] = {}, y_stride[kMaxDims] = {};
  std::int64_t x_begin = 0, y_begin = 0;
  std::int64_t elements = 1;
};

/// A copy over `rank` dimensions, outermost first. Returns false if more than
/// kMaxDims remain after merging.
bool plan_copy(CopyLaunch& launch, int element, int rank, const std::int64_t* extent,
               const std::int64_t* x_stride, const std::int64_t* y_stride, std::int64_t x_begin = 0,
               std::int64_t y_begin = 0);

/// The copy of `launch` in elements of up to 16 bytes, as wide as layout and addresses allow.
CopyLaunch widened(const CopyLaunch& launch, const void* x, const void* y);

/// The dimension along which x is contiguous when y is so along another, the last one: those two
/// are transposed through shared memory. -1 if there is none.
int transposed_dim(const CopyLaunch& launch);

/// Elements, 1, 2 or 4, that a transposition moves at once on both sides, as layout and addresses
/// allow: up to 4 elements and 16 bytes.
int transposed_vector(const CopyLaunch& launch, const void* x, const void* y);

/// The copy of `launch`, whose dimensions transposed_dim(launch) and the last are exchanged,
/// through shared memory. x and y must not overlap.
Status run_transpose(const CopyLaunch& launch, const void* x, void* y, Stream stream);

/// x and y must not overlap.
Status run_copy(const CopyLaunch& launch, const void* x, void* y, Stream stream);

/// Every one of `elements` elements becomes `value`, rounded as the type demands.
Status run_fill(void* y, DType dtype, std::int64_t elements, double value, Stream stream);

/// y[i] = offset + (i / inner) mod extent: an iota along a dimension of `extent` local elements
/// with `inner` elements inside of it, the first of which is number `offset` of the whole tensor.
Status run_iota(void* y, DType dtype, std::int64_t elements, std::int64_t extent,
                std::int64_t inner, std::int64_t offset, Stream stream);

}  // namespace alpa::cuda
