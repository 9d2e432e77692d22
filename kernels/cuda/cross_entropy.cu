// kernels/cuda/cross_entropy.cu — log Σ exp of rows with the logits of their labels, and gradients
#include "kernels/cuda/cross_entropy.h"

#include "kernels/cuda/approximate.h"
#include "kernels/cuda/floating.h"
#include "kernels/cuda/row_walk.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kBatch = 4;  ///< packs that a thread loads before it uses the first

__device__ inline float exponential(float x) { return approximate_exp2(x * 1.4426950408889634f); }
__device__ inline double exponential(double x) { return ::exp(x); }
__device__ inline float logarithm(float x) { return ::logf(x); }
__device__ inline double logarithm(double x) { return ::log(x); }
__device__ inline float larger(float a, float b) { return ::fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return ::fmax(a, b); }

template <class S>
__device__ inline bool is_finite(S x) {
  return x - x == S(0);
}

/// Sums over some elements of a row: Σ exp(x - largest), and Σ x. `largest` passes over NaN, `sum`
/// does not. It is of no other use while `largest` is infinite.
template <class S>
struct RowSums {
  S largest = S(-INFINITY), sum = 0, total = 0;

  /// What exponentials are relative to.
  __device__ S shift() const { return is_finite(largest) ? largest : S(0); }

  /// Relative to `next` from now on, which is not less than before.
  __device__ void raise(S next) {
    if (is_finite(next)) sum *= exponential(largest - next);
    largest = next;
  }
  __device__ void add(S x) {
    raise(larger(largest, x));
    sum += exponential(x - shift()), total += x;
  }
  __device__ void add(RowSums other) {
    const S next = larger(largest, other.largest);
    raise(next), other.raise(next);
    sum += other.sum, total += other.total;
  }
  __device__ S log_sum() const {
    return is_finite(largest) || sum != sum ? largest + logarithm(sum) : largest;
  }
};

/// The sums of all threads of a row, in the first of them: a warp, or (`block`) the whole block.
template <bool block, class S>
__device__ void add_threads(RowSums<S>& sums) {
  for (int offset = 16; offset > 0; offset /= 2) {
    RowSums<S> other;
    other.largest = __shfl_xor_sync(~0u, sums.largest, offset, 32);
    other.sum = __shfl_xor_sync(~0u, sums.sum, offset, 32);
    other.total = __shfl_xor_sync(~0u, sums.total, offset, 32);
    sums.add(other);
  }
  if constexpr (block) {
    __shared__ S warps[kWarps][3];
    __syncthreads();  // the last sums have been read
    if (threadIdx.x % 32 == 0) {
      S* const own = warps[threadIdx.x / 32];
      own[0] = sums.largest, own[1] = sums.sum, own[2] = sums.total;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < kWarps; ++w) {
      RowSums<S> other;
      other.largest = warps[w][0], other.sum = warps[w][1], other.total = warps[w][2];
      sums.add(other);
    }
  }
}

/// A row as single elements up to a multiple of 16 bytes, whole packs, and single elements again.
template <class T, bool block>
struct RowPacks {
  static constexpr int n = 16 / static_cast<int>(sizeof(T)), kLanes = block ? kThreads : 32;
  std::int64_t head, packs, width;

  __device__ RowPacks(const T* row, std::int64_t width) : width(width) {
    const auto past =
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T));
    head = past == 0 ? 0 : n - past < width ? n - past : width;
    packs = (width - head) / n;
  }

  __device__ int lane() const { return static_cast<int>(threadIdx.x % kLanes); }
  __device__ std::int64_t column(std::int64_t pack) const { return head + pack * n; }

  /// visit(column) for this thread's single elements.
  template <class Visit>
  __device__ void for_singles(const Visit& visit) const {
    if (lane() < head) visit(static_cast<std::int64_t>(lane()));
    if (column(packs) + lane() < width) visit(column(packs) + lane());
  }

  /// visit(first pack, packs) for batches of this thread's packs, which are kLanes apart.
  template <class Visit>
  __device__ void for_batches(const T* row, const Visit& visit) const {
    T batch[kBatch][n] = {};
#pragma unroll 1
    for (std::int64_t pack = lane(); pack < packs; pack += kBatch * kLanes) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        if (pack + b * kLanes < packs) load_words(batch[b], row + column(pack + b * kLanes));
      visit(pack, batch);
    }
  }
};

template <class T, bool block>
__global__ void __launch_bounds__(kThreads)
    sum_classes(const __grid_constant__ CrossEntropyLaunch launch, const T* x,
                const std::int32_t* labels, Sum<T>* lse, Sum<T>* target) {
  using S = Sum<T>;
  using Packs = RowPacks<T, block>;
  const RowWalk<block, kWarps> walk;
  for (std::int64_t r = walk.first; r < launch.rows; r += walk.step) {
    const T* const row = x + r * launch.width;
    const Packs packs(row, launch.width);
    RowSums<S> sums;
    packs.for_singles([&](std::int64_t column) { sums.add(widened_at(row, column)); });
    packs.for_batches(row, [&](std::int64_t pack, const T(&batch)[kBatch][Packs::n]) {
      S largest = sums.largest;
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
#pragma unroll
        for (int i = 0; i < Packs::n; ++i)
          if (pack + b * Packs::kLanes < packs.packs)
            largest = larger(largest, widened_at(batch[b], i));
      sums.raise(largest);
      const S shift = sums.shift();
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
#pragma unroll
        for (int i = 0; i < Packs::n; ++i)
          if (pack + b * Packs::kLanes < packs.packs) {
            const S value = widened_at(batch[b], i);
            sums.sum += exponential(value - shift), sums.total += value;
          }
    });
    add_threads<block>(sums);
    if (packs.lane() != 0) continue;
    const std::int64_t label = labels[r] - launch.first;
    S expected = launch.share > 0 ? sums.total * static_cast<S>(launch.share) : S(0);
    if (label >= 0 && label < launch.width)
      expected += static_cast<S>(launch.weight) * widened_at(row, label);
    lse[r] = sums.log_sum(), target[r] = expected;
  }
}

/// `apart`: x and dx begin at different places of 16 bytes.
template <class T, bool block>
__global__ void __launch_bounds__(kThreads)
    differentiate_classes(const __grid_constant__ CrossEntropyLaunch launch,
                          const CrossEntropyGradTensors t, bool apart) {
  using S = Sum<T>;
  using Packs = RowPacks<T, block>;
  const RowWalk<block, kWarps> walk;
  for (std::int64_t r = walk.first; r < launch.rows; r += walk.step) {
    const T* const row = static_cast<const T*>(t.x) + r * launch.width;
    T* const out = static_cast<T*>(t.dx) + r * launch.width;
    const Packs packs(row, launch.width);
    const S shift = static_cast<const S*>(t.lse)[r], factor = static_cast<const S*>(t.dlse)[r],
            dtarget = static_cast<const S*>(t.dtarget)[r];
    const S share = dtarget * static_cast<S>(launch.share),
            beyond = dtarget * static_cast<S>(launch.weight);
    const std::int64_t label = t.labels[r] - launch.first;
    packs.for_singles([&](std::int64_t column) {
      const S term = column == label ? share + beyond : share;
      out[column] =
          Element<T>::narrow(exponential(widened_at(row, column) - shift) * factor + term);
    });
    packs.for_batches(row, [&](std::int64_t pack, const T(&batch)[kBatch][Packs::n]) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (pack + b * Packs::kLanes >= packs.packs) continue;
        const std::int64_t column = packs.column(pack + b * Packs::kLanes), at = label - column;
        S values[Packs::n];
#pragma unroll
        for (int i = 0; i < Packs::n; ++i)
          values[i] = exponential(widened_at(batch[b], i) - shift) * factor + share;
        if (at >= 0 && at < Packs::n)
#pragma unroll
          for (int i = 0; i < Packs::n; ++i)
            if (i == at) values[i] += beyond;
        apart ? store_some(out + column, values, Packs::n) : store_pack(out + column, values);
      }
    });
  }
}

/// A block for rows that are more than a batch of a warp's.
template <class T>
bool takes_block(std::int64_t width) {
  return width > 32 * kBatch * 16 / static_cast<std::int64_t>(sizeof(T));
}

}  // namespace

Status run_cross_entropy(const CrossEntropyLaunch& l, const void* x, const std::int32_t* labels,
                         void* lse, void* target, Stream stream) {
  return with_floating(l.dtype, [&](auto element) {
    using T = decltype(element);
    const auto run = [&](auto kernel, int rows_per_block) {
      return launch(kernel, blocks_for(l.rows, rows_per_block, 65535), kThreads, 0, stream, l,
                    static_cast<const T*>(x), labels, static_cast<Sum<T>*>(lse),
                    static_cast<Sum<T>*>(target));
    };
    return takes_block<T>(l.width) ? run(sum_classes<T, true>, 1)
                                   : run(sum_classes<T, false>, kWarps);
  });
}

Status run_cross_entropy_grad(const CrossEntropyLaunch& l, const CrossEntropyGradTensors& t,
                              Stream stream) {
  const bool apart =
      reinterpret_cast<std::uintptr_t>(t.x) % 16 != reinterpret_cast<std::uintptr_t>(t.dx) % 16;
  return with_floating(l.dtype, [&](auto element) {
    using T = decltype(element);
    const auto run = [&](auto kernel, int rows_per_block) {
      return launch(kernel, blocks_for(l.rows, rows_per_block, 65535), kThreads, 0, stream, l, t,
                    apart);
    };
    return takes_block<T>(l.width) ? run(differentiate_classes<T, true>, 1)
                                   : run(differentiate_classes<T, false>, kWarps);
  });
}

}  // namespace alpa::cuda
