// kernels/cuda/rotary.cu — rotary position embedding: a thread per pair
#include "kernels/cuda/rotary.h"

#include "kernels/cuda/floating.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    turn_pairs(const __grid_constant__ kernels::RotaryShape s, const T* x,
               const std::int32_t* positions, T* y) {
  using S = Sum<T>;
  const std::int64_t half = s.width / 2, pairs = s.batch * s.time * s.heads * half;
  for_share(pairs, [&](std::int64_t i) {
    const Division head = divide(i, half);
    const std::int64_t token = divide(head.quotient, s.heads).quotient;
    const double position = positions[s.per_row ? token : divide(token, s.time).remainder];
    const double angle =
        (s.backward ? -position : position) * kernels::rotary_frequency(s, head.remainder);
    const S sine = static_cast<S>(s.magnitude * ::sin(angle)),
            cosine = static_cast<S>(s.magnitude * ::cos(angle));
    const std::int64_t start = head.quotient * s.width;
    const std::int64_t first = start + (s.interleaved ? 2 * head.remainder : head.remainder);
    const std::int64_t second = first + (s.interleaved ? 1 : half);
    const S a = Element<T>::template widen<S>(x[first]),
            b = Element<T>::template widen<S>(x[second]);
    y[first] = Element<T>::narrow(a * cosine - b * sine);
    y[second] = Element<T>::narrow(b * cosine + a * sine);
  });
}

}  // namespace

Status run_rotary(const kernels::RotaryShape& shape, const void* x, const std::int32_t* positions,
                  void* y, Stream stream) {
  const std::int64_t pairs = shape.batch * shape.time * shape.heads * (shape.width / 2);
  return with_floating(shape.dtype, [&](auto element) {
    using T = decltype(element);
    return launch(turn_pairs<T>, pairs == 0 ? 0 : blocks_for(pairs, kThreads), kThreads, 0, stream,
                  shape, static_cast<const T*>(x), positions, static_cast<T*>(y));
  });
}

}  // namespace alpa::cuda
