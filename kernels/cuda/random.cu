// kernels/cuda/random.cu — random_normal, random_uniform and dropout
#include "kernels/cuda/random.h"

#include <type_traits>

#include "kernels/cuda/device.h"
#include "src/base/philox.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;

/// A double whose operations are never fused: what alpa/base/philox.h computes
/// with, to draw the CPU's bits.
struct Exact {
  double v;

  Exact() = default;
  __device__ explicit Exact(double x) : v(x) {}
};

__device__ inline Exact operator+(Exact a, Exact b) { return Exact(__dadd_rn(a.v, b.v)); }
__device__ inline Exact operator-(Exact a, Exact b) { return Exact(__dsub_rn(a.v, b.v)); }
__device__ inline Exact operator*(Exact a, Exact b) { return Exact(__dmul_rn(a.v, b.v)); }
__device__ inline Exact operator/(Exact a, Exact b) { return Exact(__ddiv_rn(a.v, b.v)); }
__device__ inline Exact operator-(Exact a) { return Exact(-a.v); }
__device__ inline bool operator==(Exact a, Exact b) { return a.v == b.v; }
__device__ inline Exact sqrt(Exact a) { return Exact(__dsqrt_rn(a.v)); }
__device__ inline void split(Exact x, Exact& mantissa, Exact& exponent) {
  alpa::split(x.v, mantissa.v, exponent.v);
}

/// The four numbers of a group.
template <Distribution distribution>
__device__ inline void draw(Exact (&numbers)[4], const RandomStream& stream, std::uint64_t group) {
  const Philox4 words = random_words(stream, group);
#pragma unroll
  for (int i = 0; i < 4; ++i) numbers[i] = unit_interval(Exact(static_cast<double>(words.word[i])));
  if constexpr (distribution == Distribution::normal) {
    normal_pair(numbers[0], numbers[1], numbers[0], numbers[1]);
    normal_pair(numbers[2], numbers[3], numbers[2], numbers[3]);
  }
}

/// An element of dropout. The number is compared in f32, as on the CPU.
template <class T>
__device__ inline T kept(const RandomLaunch& r, Exact number, T x) {
  using S = std::conditional_t<std::is_same_v<T, double>, double, float>;
  if (static_cast<float>(number.v) < static_cast<float>(r.offset)) return Element<T>::narrow(S(0));
  return Element<T>::narrow(Element<T>::template widen<S>(x) * static_cast<S>(r.scale));
}

/// A thread draws a group and writes those of its numbers that lie in its row.
template <class T, Distribution distribution>
__global__ void __launch_bounds__(kThreads)
    draw_rows(const __grid_constant__ RandomLaunch r, const StepNumbers* step, const T* x, T* y,
              std::int64_t groups_per_row, bool aligned) {
  const RandomStream stream = random_stream(step->seed, r.stream, step->step, step->micro_batch);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < r.row_count * groups_per_row; i += stride) {
    const Division at = divide(i, groups_per_row);
    // of the row, in the whole tensor
    const std::int64_t first = r.begin + position(r.rows, at.quotient);
    const std::int64_t group = first / 4 + at.remainder;
    const std::int64_t column = group * 4 - first, element = at.quotient * r.columns + column;
    if (column >= r.columns) continue;
    Exact numbers[4];
    draw<distribution>(numbers, stream, static_cast<std::uint64_t>(group));
    T values[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if constexpr (distribution == Distribution::kept) {
        if (column + k >= 0 && column + k < r.columns)
          values[k] = kept(r, numbers[k], x[element + k]);
      } else {
        values[k] = Element<T>::narrow((Exact(r.offset) + Exact(r.scale) * numbers[k]).v);
      }
    }
    if (aligned && column >= 0 && column + 4 <= r.columns && element % 4 == 0) {
      store_words(y + element, values);
      continue;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (column + k >= 0 && column + k < r.columns) y[element + k] = values[k];
  }
}

template <class T>
Status run_as(const RandomLaunch& r, const StepNumbers* step, const T* x, T* y, Stream stream) {
  // a row may begin anywhere in a group
  const std::int64_t groups_per_row = divide_up(r.columns + 3, 4);
  const auto kernel = r.distribution == Distribution::normal ? draw_rows<T, Distribution::normal>
                      : r.distribution == Distribution::kept ? draw_rows<T, Distribution::kept>
                                                             : draw_rows<T, Distribution::uniform>;
  return launch(kernel, r.columns == 0 ? 0 : blocks_for(r.row_count * groups_per_row, kThreads),
                kThreads, 0, stream, r, step, x, y, groups_per_row, aligned16(y));
}

}  // namespace

Status run_random(const RandomLaunch& launch, const StepNumbers* step, void* y, Stream stream,
                  const void* x) {
  return with_element(launch.dtype, [&](auto t) {
    using T = decltype(t);
    return run_as(launch, step, static_cast<const T*>(x), static_cast<T*>(y), stream);
  });
}

}  // namespace alpa::cuda
