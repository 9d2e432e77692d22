// kernels/cuda/attention.cu — attention and its gradient
#include "kernels/cuda/attention.h"

#include "kernels/cuda/attention_scores.h"
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/floating.h"

namespace alpa::cuda {
namespace {

using kernels::AttentionShape;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kParts =
    static_cast<int>(kernels::kMostHeadWidth / 32);  ///< elements of a row a lane

__device__ inline float exponential(float x) { return ::expf(x); }
__device__ inline double exponential(double x) { return ::exp(x); }
__device__ inline float logarithm(float x) { return ::logf(x); }
__device__ inline double logarithm(double x) { return ::log(x); }

template <class S>
__device__ S infinity() {
  return static_cast<S>(__int_as_float(0x7f800000));
}

template <class S>
__device__ S sum_lanes(S x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset, 32);
  return x;
}
template <class S>
__device__ S largest_lane(S x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const S other = __shfl_xor_sync(~0u, x, offset, 32);
    x = other > x ? other : x;
  }
  return x;
}

/// Row i of head `head` of a tensor [B, n, heads, D].
template <class T>
__device__ const T* row_of(const void* x, std::int64_t batch, std::int64_t n, std::int64_t i,
                           std::int64_t heads, std::int64_t head, std::int64_t width) {
  return static_cast<const T*>(x) + ((batch * n + i) * heads + head) * width;
}

template <class T>
__device__ Sum<T> dot(const T* a, const T* b, std::int64_t width) {
  Sum<T> sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += widened_at(a, i) * widened_at(b, i);
  return sum;
}

/// sums += Σ of lanes' factor · row, where lane l holds the factor of rows[l] (null: none).
template <class T>
__device__ void add_rows(Sum<T> (&sums)[kParts], Sum<T> factor, const T* row, std::int64_t width) {
  for (int l = 0; l < 32; ++l) {
    const Sum<T> f = __shfl_sync(~0u, factor, l, 32);
    const auto* const from = reinterpret_cast<const T*>(
        __shfl_sync(~0u, reinterpret_cast<unsigned long long>(row), l, 32));
    if (from == nullptr) continue;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t i = part * 32 + threadIdx.x % 32;
      if (i < width) sums[part] += f * widened_at(from, i);
    }
  }
}

template <class T>
__device__ void put_row(T* out, const Sum<T> (&sums)[kParts], Sum<T> factor, std::int64_t width) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const std::int64_t i = part * 32 + threadIdx.x % 32;
    if (i < width) out[i] = Element<T>::narrow(sums[part] * factor);
  }
}

struct RowOfHead {
  std::int64_t batch, i, head;
};

/// body(place) for the places of this warp among batch × heads × n, those of a head one after
/// another.
template <class Body>
__device__ void for_places(std::int64_t batch, std::int64_t heads, std::int64_t n,
                           const Body& body) {
  const std::int64_t places = batch * heads * n;
  for (std::int64_t place = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32; place < places;
       place += gridDim.x * std::int64_t{kWarps}) {
    const Division at = divide(place, n), row = divide(at.quotient, heads);
    body(RowOfHead{row.quotient, at.remainder, row.remainder});
  }
}

/// body(key, whether it is seen) for the keys that a query may see, by all lanes together. The
/// query sees as many as query `at` would without a cache.
template <class Body>
__device__ void for_keys(const AttentionShape& s, const kernels::HiddenKeys& hidden,
                         const RowOfHead& query, std::int64_t at, const Body& body) {
  for (std::int64_t first = first_seen_key(s, at) / 32 * 32; first < seen_keys(s, at);
       first += 32) {
    const std::int64_t key = first + threadIdx.x % 32;
    body(key, is_seen(s, hidden.mask, query.batch, at, key) &&
                  are_together(s, hidden, query.batch, query.i, key));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    attend(const __grid_constant__ AttentionShape s, const AttentionTensors x,
           const StepNumbers* step) {
  using S = Sum<T>;
  for_places(s.batch, s.heads, s.queries, [&](const RowOfHead& at) {
    const std::int64_t key_head = at.head / s.group;
    const T* const q = row_of<T>(x.q, at.batch, s.queries, at.i, s.heads, at.head, s.width);
    S largest = -infinity<S>(), sum = 0, values[kParts] = {};
    const std::int64_t of = at.i + (x.positions != nullptr ? x.positions[at.batch] : 0);
    for_keys(s, x.hidden, at, of, [&](std::int64_t key, bool seen) {
      S p = -infinity<S>();
      if (seen) {
        p = dot<T>(q, row_of<T>(x.k, at.batch, s.keys, key, s.key_heads, key_head, s.width),
                   s.width);
        p = (s.soft_cap > 0 ? capped(s, p) : p) * static_cast<S>(s.scale);
      }
      const S now = largest_lane(p > largest ? p : largest);
      if (now == -infinity<S>()) return;
      const S correction = exponential(largest - now);
      largest = now;
      p = seen ? exponential(p - now) : S(0);
      sum = sum * correction + sum_lanes(p);
#pragma unroll
      for (int part = 0; part < kParts; ++part) values[part] *= correction;
      if (seen) p *= kept<S>(s, step, at.batch, at.head, at.i, key);
      add_rows<T>(
          values, p,
          seen ? row_of<T>(x.v, at.batch, s.keys, key, s.key_heads, key_head, s.width) : nullptr,
          s.width);
    });
    T* const y =
        static_cast<T*>(x.y) + ((at.batch * s.queries + at.i) * s.heads + at.head) * s.width;
    put_row<T>(y, values, sum > 0 ? 1 / sum : S(0), s.width);
    if (threadIdx.x % 32 == 0 && x.lse != nullptr)
      static_cast<S*>(x.lse)[number_of(s, at.batch, at.head, at.i)] =
          sum > 0 ? largest + logarithm(sum) : infinity<S>();
  });
}

/// A probability as dropout leaves it, and the gradient of its product.
template <class S>
struct Pair {
  S p, dproduct;
};

template <class T>
__device__ Pair<Sum<T>> differentiate(const AttentionShape& s, const AttentionGradTensors& x,
                                      const StepNumbers* step, std::int64_t batch,
                                      std::int64_t head, std::int64_t t, std::int64_t key) {
  using S = Sum<T>;
  const std::int64_t key_head = head / s.group;
  const std::int64_t number = number_of(s, batch, head, t);
  const T *const q = row_of<T>(x.q, batch, s.queries, t, s.heads, head, s.width),
                 *const dy = row_of<T>(x.dy, batch, s.queries, t, s.heads, head, s.width),
                 *const k = row_of<T>(x.k, batch, s.keys, key, s.key_heads, key_head, s.width),
                 *const v = row_of<T>(x.v, batch, s.keys, key, s.key_heads, key_head, s.width);
  const S scale = static_cast<S>(s.scale);
  const S product = dot<T>(q, k, s.width), score = s.soft_cap > 0 ? capped(s, product) : product;
  const S p = exponential(score * scale - static_cast<const S*>(x.lse)[number]);
  const S keeps = kept<S>(s, step, batch, head, t, key);
  const S dp = dot<T>(dy, v, s.width) * keeps - static_cast<const S*>(x.delta)[number];
  const S slope = s.soft_cap > 0 ? slope_of_cap(s, score) : S(1);
  return {p * keeps, p * dp * scale * slope};
}

/// delta = Σ dy·y of every query.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_products(const __grid_constant__ AttentionShape s, const AttentionGradTensors x) {
  using S = Sum<T>;
  for_places(s.batch, s.heads, s.queries, [&](const RowOfHead& at) {
    const auto row = [&](const void* tensor) {
      return row_of<T>(tensor, at.batch, s.queries, at.i, s.heads, at.head, s.width);
    };
    const T *const dy = row(x.dy), *const y = row(x.y);
    S sum = 0;
    for (std::int64_t i = threadIdx.x % 32; i < s.width; i += 32)
      sum += widened_at(dy, i) * widened_at(y, i);
    sum = sum_lanes(sum);
    if (threadIdx.x % 32 == 0)
      static_cast<S*>(x.delta)[number_of(s, at.batch, at.head, at.i)] = sum;
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    differentiate_queries(const __grid_constant__ AttentionShape s, const AttentionGradTensors x,
                          const StepNumbers* step) {
  using S = Sum<T>;
  for_places(s.batch, s.heads, s.queries, [&](const RowOfHead& at) {
    S dq[kParts] = {};
    for_keys(s, x.hidden, at, at.i, [&](std::int64_t key, bool seen) {
      const S d = seen ? differentiate<T>(s, x, step, at.batch, at.head, at.i, key).dproduct : S(0);
      add_rows<T>(
          dq, d,
          seen ? row_of<T>(x.k, at.batch, s.keys, key, s.key_heads, at.head / s.group, s.width)
               : nullptr,
          s.width);
    });
    put_row<T>(
        static_cast<T*>(x.dq) + ((at.batch * s.queries + at.i) * s.heads + at.head) * s.width, dq,
        S(1), s.width);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    differentiate_keys(const __grid_constant__ AttentionShape s, const AttentionGradTensors x,
                       const StepNumbers* step) {
  using S = Sum<T>;
  for_places(s.batch, s.key_heads, s.keys, [&](const RowOfHead& at) {
    S dk[kParts] = {}, dv[kParts] = {};
    for (std::int64_t g = 0; g < s.group; ++g) {
      const std::int64_t head = at.head * s.group + g;
      for (std::int64_t first = 0; first < s.queries; first += 32) {
        const std::int64_t t = first + threadIdx.x % 32;
        const bool seen = t < s.queries && is_seen(s, x.hidden.mask, at.batch, t, at.i) &&
                          are_together(s, x.hidden, at.batch, t, at.i);
        Pair<S> pair{S(0), S(0)};
        if (seen) pair = differentiate<T>(s, x, step, at.batch, head, t, at.i);
        const auto row = [&](const void* tensor) {
          return seen ? row_of<T>(tensor, at.batch, s.queries, t, s.heads, head, s.width) : nullptr;
        };
        add_rows<T>(dv, pair.p, row(x.dy), s.width);
        add_rows<T>(dk, pair.dproduct, row(x.q), s.width);
      }
    }
    const std::int64_t out = ((at.batch * s.keys + at.i) * s.key_heads + at.head) * s.width;
    put_row<T>(static_cast<T*>(x.dk) + out, dk, S(1), s.width);
    put_row<T>(static_cast<T*>(x.dv) + out, dv, S(1), s.width);
  });
}

}  // namespace

Status run_attention(const AttentionShape& s, const AttentionTensors& tensors,
                     const StepNumbers* step, Stream stream) {
  if (suits_tiles(s) && tensors.positions == nullptr)
    return run_attention_tiles(s, tensors, step, stream);
  return with_floating(s.dtype, [&](auto element) {
    using T = decltype(element);
    return launch(attend<T>, blocks_for(s.batch * s.heads * s.queries, kWarps, 65535), kThreads, 0,
                  stream, s, tensors, step);
  });
}

Status run_attention_grad(const AttentionShape& s, const AttentionGradTensors& tensors,
                          const StepNumbers* step, Stream stream) {
  return with_floating(s.dtype, [&](auto element) {
    using T = decltype(element);
    const unsigned blocks = blocks_for(s.batch * s.heads * s.queries, kWarps, 65535);
    Status status = launch(sum_products<T>, blocks, kThreads, 0, stream, s, tensors);
    if (status != cudaSuccess) return status;
    if (suits_tiles(s)) return run_attention_grad_tiles(s, tensors, step, stream);
    status = launch(differentiate_queries<T>, blocks, kThreads, 0, stream, s, tensors, step);
    if (status != cudaSuccess) return status;
    return launch(differentiate_keys<T>, blocks_for(s.batch * s.key_heads * s.keys, kWarps, 65535),
                  kThreads, 0, stream, s, tensors, step);
  });
}

}  // namespace alpa::cuda
