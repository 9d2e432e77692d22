#pragma once
/// Sliding windows over images, NHWC, as the kernels of all backends see them: local extents, any
/// of which may be 0.
#include <cstdint>

namespace alpa {
class Attributes;
struct KernelTensor;
}  // namespace alpa

namespace alpa::kernels {

/// One spatial dimension: element t of window o is source element o · stride - pad + t · dilation,
/// a padded one if that is outside of [0, in).
struct WindowDim {
  std::int64_t in = 1, out = 1;  ///< extents of the source, number of windows
  std::int64_t size = 1, stride = 1, dilation = 1;
  std::int64_t pad = 0;  ///< before the first element
};

/// x [B, H, W, C], kernel [kh, kw, C / groups, F], y [B, H', W', F].
struct ConvolutionShape {
  std::int64_t batch = 1, channels = 1, features = 1, groups = 1;
  WindowDim h = {}, w = {};
};

/// x [B, H, W, C], y [B, H', W', C].
struct PoolingShape {
  std::int64_t batch = 1, channels = 1;
  WindowDim h, w;
};

/// Attributes: "stride", "dilation" (integers: rows, columns), "padding" (before and after the
/// rows, before and after the columns). The number of groups follows from x and the kernel.
ConvolutionShape convolution_shape(const KernelTensor& x, const KernelTensor& kernel,
                                   const KernelTensor& y, const Attributes& attributes);

/// Attributes: "window", "stride" and "padding", as above.
PoolingShape pooling_shape(const KernelTensor& x, const KernelTensor& y,
                           const Attributes& attributes);

}  // namespace alpa::kernels
