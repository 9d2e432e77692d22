#pragma once
/// Batches of a reduction: a thread issues several loads before it uses the first, then combines
/// what they bring in an order that their number alone determines. Device code only.
#include "kernels/cuda/device.h"
#include "kernels/cuda/reduce.h"

namespace alpa::cuda {

/// The type in which a batch is combined. It holds every element, and sums of integers,
/// exactly. Sums of a few bf16 or f16 elements are taken in f32, because there are too many
/// to convert each to double.
template <class T, ReduceOp op>
struct BatchType {
  using type = float;
};
template <>
struct BatchType<float, ReduceOp::sum> {
  using type = double;
};
template <ReduceOp op>
struct BatchType<double, op> {
  using type = double;
};
template <ReduceOp op>
struct BatchType<std::int32_t, op> {
  using type = double;
};
template <class T, ReduceOp op>
using BatchValue = typename BatchType<T, op>::type;

/// Loads of n elements that a thread has in flight.
template <class T, int n>
constexpr int kBatch = n* static_cast<int>(sizeof(T)) >= 8 ? 4 : 8;

using reducing::combine;
using reducing::neutral;

/// x[0] ⊕ … ⊕ x[n - 1], n a power of two, by halves: a sum has log2(n) roundings.
template <ReduceOp op, class S, int n>
__device__ inline S combine_all(const S (&x)[n]) {
  S rest[n];
#pragma unroll
  for (int i = 0; i < n; ++i) rest[i] = x[i];
#pragma unroll
  for (int count = n / 2; count > 0; count /= 2)
#pragma unroll
    for (int i = 0; i < count; ++i) rest[i] = combine<op>(rest[i], rest[i + count]);
  return rest[0];
}

/// The number to reduce, from a stored element.
template <ReduceOp op, class T>
__device__ inline BatchValue<T, op> value_of(T stored) {
  return Element<T>::template widen<BatchValue<T, op>>(stored);
}

/// at[b] = position(b): one copy of the code, without a call, for what is rarely
/// needed and takes divisions.
template <int batch, class Position>
__device__ inline void walk_batch(std::int64_t (&at)[batch], const Position& position) {
#pragma unroll 1
  for (int b = 0; b < batch; ++b) {
    const std::int64_t here = position(b);
#pragma unroll
    for (int i = 0; i < batch; ++i) at[i] = i == b ? here : at[i];
  }
}

/// values[b] = the n elements at x + at[b] if first + b·step < end, else what changes no result.
/// All loads are issued before the first conversion.
template <class T, ReduceOp op, int batch, int n>
__device__ inline void load_batch(BatchValue<T, op> (&values)[batch][n], const T* x,
                                  const std::int64_t (&at)[batch], std::int64_t first,
                                  std::int64_t step, std::int64_t end) {
  const T nothing = Element<T>::narrow(neutral<op, BatchValue<T, op>>());
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
    for (int i = 0; i < n; ++i) values[b][i] = value_of<op>(stored[b][i]);
}

/// result ⊕ all values: each pack by itself, then the packs in double.
template <ReduceOp op, class S, int batch, int n>
__device__ inline double combine_line(double result, const S (&values)[batch][n]) {
  if constexpr (n == 1) {
    S line[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) line[b] = values[b][0];
    result = combine<op>(result, static_cast<double>(combine_all<op>(line)));
  } else {
#pragma unroll
    for (int b = 0; b < batch; ++b)
      result = combine<op>(result, static_cast<double>(combine_all<op>(values[b])));
  }
  return result;
}

/// results[i] ⊕ the values of column i.
template <ReduceOp op, class S, int batch, int n>
__device__ inline void combine_columns(double (&results)[n], const S (&values)[batch][n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    S column[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) column[b] = values[b][i];
    results[i] = combine<op>(results[i], static_cast<double>(combine_all<op>(column)));
  }
}

}  // namespace alpa::cuda
