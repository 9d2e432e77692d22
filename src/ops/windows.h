#pragma once
/// Shared by operators of sliding windows over images (conv2d, poolings). Attributes: "stride" and
/// "dilation" (rows, columns; no dilation is 1), "padding" (before and after the rows, before and
/// after the columns).
#include <array>

#include "alpa/ops/ops.h"
#include "src/ir/op_def.h"

namespace alpa::ops {

/// Number of windows of extents `sizes` down and across images of extents `image`. Throws Error if
/// there are none.
Axes window_counts(const OpQuery& query, const Axes& image, const Axes& sizes);

/// Throws Error if a stride is below 1 or a padding negative.
void check_windows(const char* op, const std::array<std::int64_t, 2>& stride,
                   const std::array<std::int64_t, 2>& before,
                   const std::array<std::int64_t, 2>& after);

/// Throws Error unless x is [B, H, W, C], floating, and the options are possible: windows of at
/// least one element, more than the padding on either side.
void check_pooling(const char* op, Value x, const PoolingOptions& options);

/// Attribute "padding".
Axes padding_attribute(const std::array<std::int64_t, 2>& before,
                       const std::array<std::int64_t, 2>& after);

}  // namespace alpa::ops
