#pragma once
/// Batches of a reduction: a thread issues several loads before it uses the first, then combines what they
/// bring in an order that their number alone determines. Device code only.
#include "kernels/cuda/device.h"
#include "kernels/cuda/reduce.h"

namespace alpa::cuda {

/// The type in which a batch is combined. It holds every element, and sums of integers, exactly. Sums of a
/// few bf16 or f16 elements are taken in f32, because there are too many to convert each to double.
template <class T, bool is_max>
struct BatchType {
  using type = float;
};
template <>
struct BatchType<float, false> {
  using type = double;
};
template <bool is_max>
struct BatchType<double, is_max> {
  using type = double;
};
template <bool is_max>
struct BatchType<std::int32_t, is_max> {
  using type = double;
};
template <class T, bool is_max>
using BatchValue = typename BatchType<T, is_max>::type;

/// Loads of n elements that a thread has in flight.
template <class T, int n>
constexpr int kBatch = n* static_cast<int>(sizeof(T)) >= 8 ? 4 : 8;

template <bool is_max, class S>
__device__ inline S neutral() {
  return is_max ? S(-INFINITY) : S(0);
}
template <bool is_max, class S>
__device__ inline S combine(S a, S b) {
  if constexpr (is_max)
    return a > b || a != a ? a : b;
  else
    return a + b;
}

/// x[0] ⊕ … ⊕ x[n - 1], n a power of two, by halves: a sum has log2(n) roundings.
template <bool is_max, class S, int n>
__device__ inline S combine_all(const S (&x)[n]) {
  S rest[n];
#pragma unroll
  for (int i = 0; i < n; ++i) rest[i] = x[i];
#pragma unroll
  for (int count = n / 2; count > 0; count /= 2)
#pragma unroll
    for (int i = 0; i < count; ++i) rest[i] = combine<is_max>(rest[i], rest[i + count]);
  return rest[0];
}

/// What is reduced, of a stored element.
template <bool is_max, class T>
__device__ inline BatchValue<T, is_max> value_of(T stored) {
  return Element<T>::template widen<BatchValue<T, is_max>>(stored);
}

/// at[b] = position(b): one copy of the code, without a call, for what is rarely needed and takes
/// divisions.
template <int batch, class Position>
__device__ inline void walk_batch(std::int64_t (&at)[batch], const Position& position) {
#pragma unroll 1
  for (int b = 0; b < batch; ++b) {
    const std::int64_t here = position(b);
#pragma unroll
    for (int i = 0; i < batch; ++i) at[i] = i == b ? here : at[i];
  }
}

/// values[b] = the n elements at x + at[b] if first + b·step < end, else what changes no result. All loads
/// are issued before the first conversion.
template <class T, bool is_max, int batch, int n>
__device__ inline void load_batch(BatchValue<T, is_max> (&values)[batch][n], const T* x,
                                  const std::int64_t (&at)[batch], std::int64_t first, std::int64_t step,
                                  std::int64_t end) {
  const T nothing = Element<T>::narrow(neutral<is_max, BatchValue<T, is_max>>());
  T stored[batch][n];
#pragma unroll
  for (int b = 0; b < batch; ++b) {
#pragma unroll
    for (int i = 0; i < n; ++i) stored[b][i] = nothing;
    if (first + b * step < end) load_words(stored[b], x + at[b]);
  }
#pragma unroll
  for (int b = 0; b < batch; ++b)
#pragma unroll
    for (int i = 0; i < n; ++i) values[b][i] = value_of<is_max>(stored[b][i]);
}

/// result ⊕ all values: each pack by itself, then the packs in double.
template <bool is_max, class S, int batch, int n>
__device__ inline double combine_line(double result, const S (&values)[batch][n]) {
  if constexpr (n == 1) {
    S line[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) line[b] = values[b][0];
    result = combine<is_max>(result, static_cast<double>(combine_all<is_max>(line)));
  } else {
#pragma unroll
    for (int b = 0; b < batch; ++b)
      result = combine<is_max>(result, static_cast<double>(combine_all<is_max>(values[b])));
  }
  return result;
}

/// results[i] ⊕ the values of column i.
template <bool is_max, class S, int batch, int n>
__device__ inline void combine_columns(double (&results)[n], const S (&values)[batch][n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    S column[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) column[b] = values[b][i];
    results[i] = combine<is_max>(results[i], static_cast<double>(combine_all<is_max>(column)));
  }
}

}  // namespace alpa::cuda
