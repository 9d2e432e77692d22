// src/ops/windows.cc — extents and checks of sliding windows
#include "windows.h"

#include "alpa/base/error.h"

namespace alpa::ops {

Axes window_counts(const OpQuery& query, const Axes& image, const Axes& sizes) {
  const Attributes& a = query.attributes;
  const Axes &stride = a.integers("stride"), &padding = a.integers("padding");
  const Axes dilation = a.contains("dilation") ? a.integers("dilation") : Axes{1, 1};
  Axes counts;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t padded = image[d] + padding[2 * d] + padding[2 * d + 1],
                       reach = dilation[d] * (sizes[d] - 1) + 1;
    if (reach > padded)
      fail("{}: windows reach over {} {}, but x has {} with its padding ({})", query.op->name,
           reach, d == 0 ? "rows" : "columns", padded, to_string(query.operands));
    counts.push_back((padded - reach) / stride[d] + 1);
  }
  return counts;
}

void check_windows(const char* op, const std::array<std::int64_t, 2>& stride,
                   const std::array<std::int64_t, 2>& before,
                   const std::array<std::int64_t, 2>& after) {
  require(stride[0] >= 1 && stride[1] >= 1, "{}: the stride is {} x {}; both must be at least 1",
          op, stride[0], stride[1]);
  for (int d = 0; d < 2; ++d)
    require(before[d] >= 0 && after[d] >= 0,
            "{}: the padding of {} is {} before and {} after; neither may be negative", op,
            d == 0 ? "rows" : "columns", before[d], after[d]);
}

void check_pooling(const char* op, Value x, const PoolingOptions& options) {
  require(static_cast<bool>(x), "{}: the operand is an empty Value", op);
  require(is_floating(x.dtype()) && x.rank() == 4, "{}: x must be floating, [B, H, W, C] ({})", op,
          to_string(x.type()));
  const auto& [window, stride, before, after] = options;
  require(window[0] >= 1 && window[1] >= 1, "{}: the window is {} x {}; both must be at least 1",
          op, window[0], window[1]);
  check_windows(op, stride, before, after);
  for (int d = 0; d < 2; ++d)
    require(before[d] < window[d] && after[d] < window[d],
            "{}: the padding of {} is {} before and {} after; it must be below the window's {}", op,
            d == 0 ? "rows" : "columns", before[d], after[d], window[d]);
}

Axes padding_attribute(const std::array<std::int64_t, 2>& before,
                       const std::array<std::int64_t, 2>& after) {
  return {before[0], after[0], before[1], after[1]};
}

}  // namespace alpa::ops
