// kernels/cuda/combine.cu — reductions and copies between logical devices of one card
#include "kernels/cuda/combine.h"

#include "kernels/cuda/copy_place.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBatch = 4;  ///< sources read at once

struct CombineLaunch {
  CopyLaunch box;
  int num_sources, num_targets;
  const void* sources[kMaxMembers];
  void* targets[kMaxMembers];
};

/// The type in which elements are combined; i32 sums are taken unsigned, where wrapping is defined.
template <class T>
struct Wide {
  using type = float;
};
template <>
struct Wide<double> {
  using type = double;
};
template <>
struct Wide<std::int32_t> {
  using type = std::int32_t;
};
template <>
struct Wide<std::uint8_t> {
  using type = std::uint8_t;
};

template <class T>
__device__ inline typename Wide<T>::type widen(T x) {
  return Element<T>::template widen<typename Wide<T>::type>(x);
}

template <bool is_max, class W>
__device__ inline W combine(W a, W b) {
  if constexpr (is_max) return a >= b || a != a ? a : b;
  return static_cast<W>(a + b);
}
template <bool is_max>
__device__ inline std::int32_t combine(std::int32_t a, std::int32_t b) {
  if constexpr (is_max) return a >= b ? a : b;
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

/// Elements are whole already when they are integers.
template <class T>
__device__ inline T narrow(typename Wide<T>::type x) {
  if constexpr (sizeof(T) == sizeof(x))
    return x;
  else
    return Element<T>::narrow(x);
}

/// result = first ? next : result ⊕ next
template <bool is_max, class W, class T, int n>
__device__ inline void add_source(W (&result)[n], const T (&next)[n], bool first) {
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const W value = widen(next[k]);
    result[k] = first ? value : combine<is_max>(result[k], value);
  }
}

/// Packs of n elements that are neighbours on both sides, at multiples of n. The loads of kBatch
/// sources are issued before the first is used.
template <class T, bool is_max, int n>
__global__ void __launch_bounds__(kThreads, 4)
    combine_packs(const __grid_constant__ CombineLaunch p) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * n;
  std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * n;
  for (; i < p.box.elements; i += stride) {
    std::int64_t index[] = {i};
    Place place[1];
    places_of(place, p.box, index);
    typename Wide<T>::type result[n] = {};
    T next[kBatch][n];
#pragma unroll 1
    for (int s = 0; s < p.num_sources; s += kBatch) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        if (s + b < p.num_sources)
          load_words(next[b], static_cast<const T*>(p.sources[s + b]) + place[0].x);
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        if (s + b < p.num_sources) add_source<is_max>(result, next[b], s + b == 0);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) next[0][k] = narrow<T>(result[k]);
    for (int t = 0; t < p.num_targets; ++t)
      store_words(static_cast<T*>(p.targets[t]) + place[0].y, next[0]);
  }
}

/// Whether packs of n elements are neighbours on both sides and aligned in all buffers.
bool is_packed(const CombineLaunch& p, std::int64_t n) {
  const CopyLaunch& box = p.box;
  const int last = box.dims - 1;
  bool packed = box.dims > 0 && box.x_stride[last] == 1 && box.y_stride[last] == 1 &&
                box.extent[last] % n == 0 && box.x_begin % n == 0 && box.y_begin % n == 0;
  for (int d = 0; d < last; ++d)
    packed = packed && box.x_stride[d] % n == 0 && box.y_stride[d] % n == 0;
  for (int s = 0; s < p.num_sources; ++s) packed = packed && aligned16(p.sources[s]);
  for (int t = 0; t < p.num_targets; ++t) packed = packed && aligned16(p.targets[t]);
  return packed;
}

template <class T, bool is_max>
Status run_as(const CombineLaunch& p, Stream stream) {
  constexpr int n = 16 / static_cast<int>(sizeof(T));
  if (is_packed(p, n))
    return launch(combine_packs<T, is_max, n>, blocks_for(p.box.elements, kThreads * n), kThreads,
                  0, stream, p);
  return launch(combine_packs<T, is_max, 1>, blocks_for(p.box.elements, kThreads), kThreads, 0,
                stream, p);
}

}  // namespace

Status run_combine(DType dtype, CombineOp op, const CopyLaunch& box, int num_sources,
                   const void* const* sources, int num_targets, void* const* targets,
                   Stream stream) {
  if (num_sources < 1 || num_sources > kMaxMembers || num_targets > kMaxMembers)
    return cudaErrorInvalidValue;
  CombineLaunch p = {box, num_sources, num_targets, {}, {}};
  for (int s = 0; s < num_sources; ++s) p.sources[s] = sources[s];
  for (int t = 0; t < num_targets; ++t) p.targets[t] = targets[t];
  return with_element(dtype, [&](auto t) {
    using T = decltype(t);
    return op == CombineOp::max ? run_as<T, true>(p, stream) : run_as<T, false>(p, stream);
  });
}

}  // namespace alpa::cuda
