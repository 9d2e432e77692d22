// kernels/cuda/convolution.cu — conv2d and its gradients
#include "kernels/cuda/convolution.h"

#include "kernels/cuda/floating.h"
#include "kernels/cuda/window_walk.h"

namespace alpa::cuda {
namespace {

using kernels::ConvolutionShape;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

/// Σ over the taps of one window, and the channels of the feature's group.
template <class T>
__global__ void __launch_bounds__(kThreads)
    correlate(const __grid_constant__ ConvolutionShape s, const T* x, const T* kernel, T* y,
              std::int64_t count) {
  const std::int64_t channels = s.channels / s.groups, features = s.features / s.groups;
  for_share(count, [&](std::int64_t i) {
    const PixelPlace to = place_of(i, s.h.out, s.w.out, s.features);
    const std::int64_t first = divide(to.channel, features).quotient * channels;
    Sum<T> sum = 0;
    for_sources(
        s.h, s.w, to.row, to.column,
        [&](std::int64_t row, std::int64_t column, std::int64_t r, std::int64_t c) {
          const T* const from = x + pixel_at(to, s.h.in, s.w.in, row, column, s.channels) + first;
          const T* const weights = kernel + (r * s.w.size + c) * channels * s.features + to.channel;
          for (std::int64_t k = 0; k < channels; ++k)
            sum += widened_at(from, k) * widened_at(weights, k * s.features);
        });
    y[i] = Element<T>::narrow(sum);
  });
}

/// Σ over the windows that show an element, and the features of its group.
template <class T>
__global__ void __launch_bounds__(kThreads)
    correlate_back(const __grid_constant__ ConvolutionShape s, const T* dy, const T* kernel, T* dx,
                   std::int64_t count) {
  const std::int64_t channels = s.channels / s.groups, features = s.features / s.groups;
  for_share(count, [&](std::int64_t i) {
    const PixelPlace to = place_of(i, s.h.in, s.w.in, s.channels);
    const Division group = divide(to.channel, channels);
    const std::int64_t first = group.quotient * features;
    Sum<T> sum = 0;
    for_windows(s.h, s.w, to,
                [&](std::int64_t row, std::int64_t column, std::int64_t r, std::int64_t c) {
                  const T* const slopes =
                      dy + pixel_at(to, s.h.out, s.w.out, row, column, s.features) + first;
                  const std::int64_t tap = (r * s.w.size + c) * channels + group.remainder;
                  const T* const weights = kernel + tap * s.features + first;
                  for (std::int64_t f = 0; f < features; ++f)
                    sum += widened_at(slopes, f) * widened_at(weights, f);
                });
    dx[i] = Element<T>::narrow(sum);
  });
}

/// A block per tap, channel and 32 features; its warps take pixels in turn.
template <class T>
__global__ void __launch_bounds__(kThreads)
    correlate_slopes(const __grid_constant__ ConvolutionShape s, const T* x, const T* dy,
                     T* dkernel, std::int64_t tasks) {
  __shared__ Sum<T> shares[kWarps][32];
  const std::int64_t channels = s.channels / s.groups, features = s.features / s.groups,
                     across = (s.features + 31) / 32, pixels = s.batch * s.h.out * s.w.out;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Division line = divide(task, across), tap = divide(line.quotient, channels),
                   rows = divide(tap.quotient, s.w.size);
    const std::int64_t feature = line.remainder * 32 + lane;
    const std::int64_t channel = divide(feature, features).quotient * channels + tap.remainder;
    Sum<T> sum = 0;
    if (feature < s.features)
      for (std::int64_t p = warp; p < pixels; p += kWarps) {
        const PixelPlace to = place_of(p, s.h.out, s.w.out, 1);
        const std::int64_t row = source_of(s.h, to.row, rows.quotient),
                           column = source_of(s.w, to.column, rows.remainder);
        if (row < 0 || column < 0) continue;
        sum += widened_at(x, pixel_at(to, s.h.in, s.w.in, row, column, s.channels) + channel) *
               widened_at(dy, p * s.features + feature);
      }
    __syncthreads();  // the last sums have been read
    shares[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || feature >= s.features) continue;
    for (int w = 1; w < kWarps; ++w) sum += shares[w][lane];
    dkernel[line.quotient * s.features + feature] = Element<T>::narrow(sum);
  }
}

}  // namespace

Status run_convolution(const ConvolutionLaunch& l, const void* first, const void* second,
                       void* result, Stream stream) {
  const ConvolutionShape& s = l.shape;
  const auto threads_for = [](std::int64_t count) { return blocks_for(count, kThreads, 65535); };
  return with_floating(l.dtype, [&](auto element) -> Status {
    using T = decltype(element);
    const auto* const a = static_cast<const T*>(first);
    const auto* const b = static_cast<const T*>(second);
    auto* const c = static_cast<T*>(result);
    if (l.result == ConvolutionResult::y)
      return launch(correlate<T>, threads_for(l.y_elements()), kThreads, 0, stream, s, a, b, c,
                    l.y_elements());
    if (l.result == ConvolutionResult::x)
      return launch(correlate_back<T>, threads_for(l.x_elements()), kThreads, 0, stream, s, a, b, c,
                    l.x_elements());
    if (l.kernel_elements() == 0) return cudaSuccess;
    const std::int64_t tasks = l.kernel_elements() / s.features * divide_up(s.features, 32);
    return launch(correlate_slopes<T>, blocks_for(tasks, 1, 65535), kThreads, 0, stream, s, a, b, c,
                  tasks);
  });
}

}  // namespace alpa::cuda
