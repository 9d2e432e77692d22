// kernels/cuda/experts.cu — dispatch, combine and expert_products
#include "kernels/cuda/experts.h"

#include "kernels/cuda/floating.h"
#include "kernels/cuda/row_walk.h"

namespace alpa::cuda {
namespace {

using kernels::ExpertsShape;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPlaces = 64;  ///< that a block fills
constexpr int kNobody = 0x7fffffff;

/// The tensors, with the types that they have.
template <class T>
struct Typed {
  const T* x;
  const std::int32_t* places;
  const Sum<T>* weights;
  T* y;

  __device__ Sum<T> weight(std::int64_t choice) const {
    return weights == nullptr ? Sum<T>(1) : weights[choice];
  }
};

// ---- dispatch

/// Places first, first + 1, … of one expert for one group.
struct Stretch {
  std::int64_t first, group, row;  ///< row: in [E, G, C] of this device
  int count;
};

__device__ inline Stretch stretch_of(const ExpertsShape& s, std::int64_t task) {
  const std::int64_t chunks = (s.capacity + kPlaces - 1) / kPlaces;
  const Division at = divide(task, chunks), expert = divide(at.quotient, s.groups);
  const std::int64_t begin = at.remainder * kPlaces, rest = s.capacity - begin;
  return {(s.first + expert.quotient) * s.capacity + begin, expert.remainder,
          at.quotient * s.capacity + begin, static_cast<int>(rest < kPlaces ? rest : kPlaces)};
}

/// The first and the last of a group's choices at each place of a stretch.
struct Takers {
  int first[kPlaces], last[kPlaces];
};

__device__ inline void find_takers(Takers& takers, const Stretch& stretch,
                                   const std::int32_t* places, int choices) {
  for (int p = threadIdx.x; p < kPlaces; p += kThreads)
    takers.first[p] = kNobody, takers.last[p] = -1;
  __syncthreads();
  for (int c = threadIdx.x; c < choices; c += kThreads) {
    const std::int64_t p = places[c] - stretch.first;
    if (p < 0 || p >= stretch.count) continue;
    atomicMin(takers.first + p, c);
    atomicMax(takers.last + p, c);
  }
  __syncthreads();
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    fill_places(const __grid_constant__ ExpertsShape s, const Typed<T> t, std::int64_t tasks) {
  __shared__ Takers takers;
  const int choices = static_cast<int>(s.tokens * s.choices);
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Stretch stretch = stretch_of(s, task);
    const std::int64_t group = stretch.group * choices;
    find_takers(takers, stretch, t.places + group, choices);
    for (int p = threadIdx.x / 32; p < stretch.count; p += kWarps) {
      const int first = takers.first[p], last = takers.last[p];
      const std::int64_t place = stretch.first + p;
      T* const y = t.y + (stretch.row + p) * s.width;
      for (std::int64_t column = threadIdx.x % 32 * n; column < s.width; column += 32 * n) {
        Sum<T> sums[n] = {};
        for (int c = first; c <= last; ++c) {
          if (c > first && t.places[group + c] != place) continue;
          Sum<T> values[n];
          load_pack(values, t.x + divide(group + c, s.choices).quotient * s.width + column);
          const Sum<T> weight = t.weight(group + c);
#pragma unroll
          for (int i = 0; i < n; ++i) sums[i] += weight * values[i];
        }
        store_pack(y + column, sums);
      }
    }
    __syncthreads();  // all have read the takers before the next ones are found
  }
}

// ---- the way back

constexpr std::int64_t kElsewhere = -1, kOutside = -2;

/// Row of [E, G, C] that a choice of a token is at: on another device, or on none.
__device__ inline std::int64_t row_of(const ExpertsShape& s, std::int64_t place,
                                      std::int64_t token) {
  if (place >= s.all * s.capacity) return kOutside;
  const std::int64_t own = place - s.first * s.capacity;
  if (place < 0 || own < 0 || own >= s.experts * s.capacity) return kElsewhere;
  const Division at = divide(own, s.capacity);
  return (at.quotient * s.groups + divide(token, s.tokens).quotient) * s.capacity + at.remainder;
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    add_results(const __grid_constant__ ExpertsShape s, const Typed<T> t) {
  const RowWalk<false, kWarps> walk;
  for (std::int64_t token = walk.first; token < s.groups * s.tokens; token += walk.step)
    for (std::int64_t column = threadIdx.x % 32 * n; column < s.width; column += 32 * n) {
      Sum<T> sums[n] = {};
      for (std::int64_t c = token * s.choices; c < (token + 1) * s.choices; ++c) {
        const std::int64_t row = row_of(s, t.places[c], token);
        if (row == kElsewhere) continue;
        Sum<T> values[n] = {};
        if (row != kOutside) load_pack(values, t.x + row * s.width + column);
        const Sum<T> weight = row == kOutside ? Sum<T>(NAN) : t.weight(c);
#pragma unroll
        for (int i = 0; i < n; ++i) sums[i] += weight * values[i];
      }
      store_pack(t.y + token * s.width + column, sums);
    }
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    multiply_rows(const __grid_constant__ ExpertsShape s, const T* x, const std::int32_t* places,
                  const T* results, Sum<T>* y) {
  const RowWalk<false, kWarps> walk;
  for (std::int64_t c = walk.first; c < s.groups * s.tokens * s.choices; c += walk.step) {
    const std::int64_t token = divide(c, s.choices).quotient, row = row_of(s, places[c], token);
    Sum<T> sum = row == kOutside ? Sum<T>(NAN) : Sum<T>(0);
    const std::int64_t width = row < 0 ? 0 : s.width;
    for (std::int64_t column = threadIdx.x % 32 * n; column < width; column += 32 * n) {
      Sum<T> a[n], b[n];
      load_pack(a, x + token * s.width + column);
      load_pack(b, results + row * s.width + column);
#pragma unroll
      for (int i = 0; i < n; ++i) sum += a[i] * b[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset, 32);
    if (threadIdx.x % 32 == 0) y[c] = sum;
  }
}

template <class T>
Typed<T> typed(const ExpertsTensors& t) {
  return {static_cast<const T*>(t.x), t.places, static_cast<const Sum<T>*>(t.weights),
          static_cast<T*>(t.y)};
}

}  // namespace

Status run_dispatch(const ExpertsShape& s, const ExpertsTensors& t, Stream stream) {
  const std::int64_t tasks = s.experts * s.groups * divide_up(s.capacity, kPlaces);
  return with_packs(s.dtype, s.width, {t.x, t.y}, [&](auto element, auto pack) {
    using T = decltype(element);
    return launch(fill_places<T, decltype(pack)::value>, blocks_for(tasks, 1, 65535), kThreads, 0,
                  stream, s, typed<T>(t), tasks);
  });
}

Status run_combine(const ExpertsShape& s, const ExpertsTensors& t, Stream stream) {
  return with_packs(s.dtype, s.width, {t.x, t.y}, [&](auto element, auto pack) {
    using T = decltype(element);
    return launch(add_results<T, decltype(pack)::value>,
                  blocks_for(s.groups * s.tokens, kWarps, 65535), kThreads, 0, stream, s,
                  typed<T>(t));
  });
}

Status run_expert_products(const ExpertsShape& s, const void* x, const std::int32_t* places,
                           const void* results, void* y, Stream stream) {
  return with_packs(s.dtype, s.width, {x, results}, [&](auto element, auto pack) {
    using T = decltype(element);
    return launch(multiply_rows<T, decltype(pack)::value>,
                  blocks_for(s.groups * s.tokens * s.choices, kWarps, 65535), kThreads, 0, stream,
                  s, static_cast<const T*>(x), places, static_cast<const T*>(results),
                  static_cast<Sum<T>*>(y));
  });
}

}  // namespace alpa::cuda
