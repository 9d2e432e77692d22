// kernels/cuda/combine.cu — reductions and copies between logical devices of one card
#include "kernels/cuda/combine.h"

#include <type_traits>

#include "kernels/cuda/copy_place.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBatch = 4;  ///< sources read at once; a full batch is a subtree
/// Levels of the tree above batches: for up to 8 sources, which need few registers, and for all.
constexpr int kFewLevels = 2, kAllLevels = 5;
static_assert(kBatch << (kAllLevels - 1) == kMaxMembers);

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

__device__ inline float log_of_one_plus_exp(float x) { return ::log1pf(::expf(x)); }
__device__ inline double log_of_one_plus_exp(double x) { return ::log1p(::exp(x)); }

template <Combiner op, class W>
__device__ inline W combine(W a, W b) {
  if constexpr (op == Combiner::sum) {
    return static_cast<W>(a + b);
  } else {
    const W largest = a >= b || a != a ? a : b;
    if constexpr (op == Combiner::max) return largest;
    if constexpr (op == Combiner::log_sum_exp)
      // of infinite ones the difference may be NaN
      return largest - largest == W(0) ? largest + log_of_one_plus_exp(a < b ? a - b : b - a)
                                       : largest;
  }
}
template <Combiner op>
__device__ inline std::int32_t combine(std::int32_t a, std::int32_t b) {
  if constexpr (op == Combiner::max) return a >= b ? a : b;
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

/// The first `count` sources of a batch: (0 ⊕ 1) ⊕ (2 ⊕ 3).
template <Combiner op, class W, class T, int n>
__device__ inline void combine_batch(W (&result)[n], const T (&batch)[kBatch][n], int count) {
#pragma unroll
  for (int k = 0; k < n; ++k) {
    W left = widen(batch[0][k]);
    if (count > 1) left = combine<op>(left, widen(batch[1][k]));
    W right = widen(batch[2][k]);
    if (count > 3) right = combine<op>(right, widen(batch[3][k]));
    result[k] = count > 2 ? combine<op>(left, right) : left;
  }
}

/// Adds batch number `index`. levels[l] holds 2^l batches if bit l of the batches so far is set, as
/// in a binary counter; the batch carries. No level's number is computed, so all are in registers.
template <Combiner op, class W, int n, int num_levels>
__device__ inline void push_batch(W (&levels)[num_levels][n], W (&batch)[n], int index) {
  bool carries = true;
#pragma unroll
  for (int l = 0; l < num_levels; ++l) {
    const bool held = index >> l & 1;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (carries && held) batch[k] = combine<op>(levels[l][k], batch[k]);
      if (carries && !held) levels[l][k] = batch[k];
    }
    carries = carries && held;
  }
}

/// All `count` batches: the lowest level, and from the left what higher levels hold.
template <Combiner op, class W, int n, int num_levels>
__device__ inline void combine_levels(W (&result)[n], const W (&levels)[num_levels][n], int count) {
  bool first = true;
#pragma unroll
  for (int l = 0; l < num_levels; ++l) {
    const bool held = count >> l & 1;
#pragma unroll
    for (int k = 0; k < n; ++k)
      if (held) result[k] = first ? levels[l][k] : combine<op>(levels[l][k], result[k]);
    first = first && !held;
  }
}

/// Packs of n elements that are neighbours on both sides, at multiples of n. The loads of kBatch
/// sources are issued before the first is used.
template <class T, Combiner op, int n, int num_levels>
__global__ void __launch_bounds__(kThreads, num_levels* n > 16 ? 2 : 4)
    combine_packs(const __grid_constant__ CombineLaunch p) {
  using W = typename Wide<T>::type;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * n;
  std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * n;
  for (; i < p.box.elements; i += stride) {
    std::int64_t index[] = {i};
    CopyPlace place[1];
    places_of(place, p.box, index);
    W levels[num_levels][n] = {}, result[n] = {};
    T next[kBatch][n] = {};
    int batches = 0;
#pragma unroll 1
    for (int s = 0; s < p.num_sources; s += kBatch) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        if (s + b < p.num_sources)
          load_words(next[b], static_cast<const T*>(p.sources[s + b]) + place[0].x);
      combine_batch<op>(result, next, p.num_sources - s);
      push_batch<op>(levels, result, batches++);
    }
    combine_levels<op>(result, levels, batches);
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

template <class T, Combiner op, int num_levels>
Status run_as(const CombineLaunch& p, Stream stream) {
  constexpr int n = 16 / static_cast<int>(sizeof(T));
  if (is_packed(p, n))
    return launch(combine_packs<T, op, n, num_levels>, blocks_for(p.box.elements, kThreads * n),
                  kThreads, 0, stream, p);
  return launch(combine_packs<T, op, 1, num_levels>, blocks_for(p.box.elements, kThreads), kThreads,
                0, stream, p);
}

template <class T, Combiner op>
Status run_as(const CombineLaunch& p, Stream stream) {
  return p.num_sources <= kBatch << (kFewLevels - 1) ? run_as<T, op, kFewLevels>(p, stream)
                                                     : run_as<T, op, kAllLevels>(p, stream);
}

}  // namespace

Status run_combine(DType dtype, Combiner op, const CopyLaunch& box, int num_sources,
                   const void* const* sources, int num_targets, void* const* targets,
                   Stream stream) {
  if (num_sources < 1 || num_sources > kMaxMembers || num_targets > kMaxMembers)
    return cudaErrorInvalidValue;
  CombineLaunch p = {box, num_sources, num_targets, {}, {}};
  for (int s = 0; s < num_sources; ++s) p.sources[s] = sources[s];
  for (int t = 0; t < num_targets; ++t) p.targets[t] = targets[t];
  return with_element(dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_floating_point_v<typename Wide<T>::type>)
      if (op == Combiner::log_sum_exp) return run_as<T, Combiner::log_sum_exp>(p, stream);
    if (op == Combiner::log_sum_exp) return Status{cudaErrorInvalidValue};
    return op == Combiner::max ? run_as<T, Combiner::max>(p, stream)
                               : run_as<T, Combiner::sum>(p, stream);
  });
}

}  // namespace alpa::cuda
