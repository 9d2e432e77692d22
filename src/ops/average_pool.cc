// src/ops/average_pool.cc — mean of every window, NHWC: a convolution of every channel with ones,
// divided by the number of elements that the window shows
#include "windows.h"

namespace alpa {

Value average_pool(Value x, PoolingOptions options) {
  ops::check_pooling("average_pool", x, options);
  const auto& [window, stride, before, after] = options;
  const auto sums = [&](Value images, std::int64_t channels) {
    const Value ones = constant(images, 1, images.dtype(), {window[0], window[1], 1, channels});
    return conv2d(images, ones,
                  {.stride = stride, .pad_before = before, .pad_after = after, .groups = channels});
  };
  const Value total = sums(x, x.dim(3));
  if (before == std::array<std::int64_t, 2>{} && after == before)
    return total * (1.0 / static_cast<double>(window[0] * window[1]));
  return total / sums(constant(x, 1, x.dtype(), {1, x.dim(1), x.dim(2), 1}), 1);
}

}  // namespace alpa
