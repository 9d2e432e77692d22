#pragma once
/// Plans the copy of a strided view into a dense tensor: transposition, broadcasting and packing.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "alpa/base/shape.h"

namespace alpa::kernels {

/// dst[i0, i1, …] = src[i0·stride0 + i1·stride1 + …], dst dense row-major with these extents;
/// strides in elements, 0 repeats.
struct StridedCopy {
  Shape extents;  ///< none is 1; neighbours that could be one dimension are one
  std::vector<std::int64_t> strides;
  std::size_t element = 4;  ///< bytes of an element: 1, 2, 4 or 8
  std::int64_t elements = 1;
  std::vector<std::int64_t> dst_strides;
  /// dimension along which the source is contiguous, if that is another than the innermost
  int fast = -1;
};

/// Merges dimensions where that is possible.
StridedCopy plan_strided_copy(const Shape& extents, const std::vector<std::int64_t>& strides,
                              std::size_t element);

/// Strides of a dense row-major tensor.
std::vector<std::int64_t> dense_strides(const Shape& shape);

}  // namespace alpa::kernels
