// kernels/cpu/depthwise.cc — convolutions with a kernel per channel
#include "kernels/cpu/depthwise.h"

#include <algorithm>

#include "kernels/cpu/block_io.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::ConvolutionShape;
using kernels::WindowDim;

constexpr std::int64_t kBlock = 256;  ///< channels at a time

/// The source element that tap `t` of window `o` shows; -1: padding.
std::int64_t source(const WindowDim& d, std::int64_t o, std::int64_t t) {
  const std::int64_t i = o * d.stride - d.pad + t * d.dilation;
  return i >= 0 && i < d.in ? i : -1;
}

/// The window whose tap `t` shows element `i`; -1: none.
std::int64_t window(const WindowDim& d, std::int64_t i, std::int64_t t) {
  const std::int64_t o = i + d.pad - t * d.dilation;
  return o >= 0 && o % d.stride == 0 && o / d.stride < d.out ? o / d.stride : -1;
}

/// result[b, r, c, :] = Σ over taps of kernel[tap, :] · from[b, at(r), at(c), :]
template <class T, class At>
void sum_taps(const KernelCall& call, const ConvolutionShape& s, bool forward, const At& at) {
  const KernelTensor &from = call.inputs[0], &kernel = call.inputs[1], &to = call.outputs[0];
  const std::int64_t rows = forward ? s.h.out : s.h.in, columns = forward ? s.w.out : s.w.in,
                     from_rows = forward ? s.h.in : s.h.out,
                     from_columns = forward ? s.w.in : s.w.out, channels = s.channels;
  const auto pixel = [&](std::int64_t p, std::int64_t first, std::int64_t n) {
    const std::int64_t b = p / (rows * columns), r = p / columns % rows, c = p % columns;
    T sums[kBlock] = {}, values[kBlock], weights[kBlock];
    for (std::int64_t tap = 0; tap < s.h.size * s.w.size; ++tap) {
      const std::int64_t i = at(s.h, r, tap / s.w.size), j = at(s.w, c, tap % s.w.size);
      if (i < 0 || j < 0) continue;
      const T* const x =
          read_block(values, from, ((b * from_rows + i) * from_columns + j) * channels + first, n);
      const T* const k = read_block(weights, kernel, tap * channels + first, n);
      for (std::int64_t e = 0; e < n; ++e) sums[e] += x[e] * k[e];
    }
    store_block(to.data, to.type.dtype, p * channels + first, sums, n);
  };
  call.team->for_each(s.batch * rows * columns, (1 << 13) / channels + 1, [&](std::int64_t p) {
    for (std::int64_t e = 0; e < channels; e += kBlock) pixel(p, e, std::min(kBlock, channels - e));
  });
}

}  // namespace

template <class T>
void depthwise_forward(const KernelCall& call, const ConvolutionShape& s) {
  sum_taps<T>(call, s, true, source);
}

template <class T>
void depthwise_grad_x(const KernelCall& call, const ConvolutionShape& s) {
  sum_taps<T>(call, s, false, window);
}

template <class T>
void depthwise_grad_kernel(const KernelCall& call, const ConvolutionShape& s) {
  const KernelTensor &x = call.inputs[0], &dy = call.inputs[1], &dkernel = call.outputs[0];
  const std::int64_t taps = s.h.size * s.w.size, blocks = (s.channels + kBlock - 1) / kBlock;
  const auto sum = [&](std::int64_t tap, std::int64_t first, std::int64_t n) {
    double sums[kBlock] = {};
    T values[kBlock], slopes[kBlock];
    for (std::int64_t p = 0; p < s.batch * s.h.out * s.w.out; ++p) {
      const std::int64_t b = p / (s.h.out * s.w.out),
                         i = source(s.h, p / s.w.out % s.h.out, tap / s.w.size),
                         j = source(s.w, p % s.w.out, tap % s.w.size);
      if (i < 0 || j < 0) continue;
      const T* const from =
          read_block(values, x, ((b * s.h.in + i) * s.w.in + j) * s.channels + first, n);
      const T* const slope = read_block(slopes, dy, p * s.channels + first, n);
      for (std::int64_t e = 0; e < n; ++e) sums[e] += double(from[e]) * slope[e];
    }
    store_block(dkernel.data, dkernel.type.dtype, tap * s.channels + first, sums, n);
  };
  call.team->for_each(taps * blocks, 1, [&](std::int64_t i) {
    const std::int64_t first = i % blocks * kBlock;
    sum(i / blocks, first, std::min(kBlock, s.channels - first));
  });
}

template void depthwise_forward<float>(const KernelCall&, const ConvolutionShape&);
template void depthwise_forward<double>(const KernelCall&, const ConvolutionShape&);
template void depthwise_grad_x<float>(const KernelCall&, const ConvolutionShape&);
template void depthwise_grad_x<double>(const KernelCall&, const ConvolutionShape&);
template void depthwise_grad_kernel<float>(const KernelCall&, const ConvolutionShape&);
template void depthwise_grad_kernel<double>(const KernelCall&, const ConvolutionShape&);

}  // namespace alpa::cpu
