// kernels/cuda/layer_norm.cu — layer_norm and rms_norm with their gradients
#include "kernels/cuda/layer_norm.h"

#include "kernels/cuda/add_pieces.h"
#include "kernels/cuda/floating.h"
#include "kernels/cuda/row_walk.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kKept = 4;  ///< packs of a row that a thread keeps in registers

/// Threads of a block. `lanes`: of a row, a warp or all of the block. As few as keep the row, so
/// that each has several loads under way, and barriers are cheap.
template <int lanes>
constexpr int kThreadsOf = lanes > 32 ? lanes : kThreads;

__device__ inline float root_reciprocal(float x) { return 1.0f / ::sqrtf(x); }
__device__ inline double root_reciprocal(double x) { return 1.0 / ::sqrt(x); }

/// Σ over the threads of a row, in all of them.
template <int lanes, class S>
__device__ S sum_row(S x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset, 32);
  if constexpr (lanes > 32) {
    __shared__ S warps[lanes / 32];
    __syncthreads();  // the last sum has been read
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    x = warps[0];
    for (int w = 1; w < lanes / 32; ++w) x += warps[w];
  }
  return x;
}

/// One thread's share of a row: packs of n elements, the first of them in
/// registers, read before any is used. A null row is not read.
template <class T, int n, int lanes>
class Share {
 public:
  __device__ Share(const T* row, std::int64_t width) : row_(row), width_(width) {
    first_ = static_cast<std::int64_t>(threadIdx.x % lanes) * n;
#pragma unroll
    for (int p = 0; p < kKept; ++p)
      if (row != nullptr && column(p) < width_) load_words(kept_[p], row_ + column(p));
  }

  /// visit(column, pack number or -1) for all packs of this thread.
  template <class Visit>
  __device__ void for_packs(const Visit& visit) const {
#pragma unroll
    for (int p = 0; p < kKept; ++p)
      if (column(p) < width_) visit(column(p), p);
#pragma unroll 1
    for (std::int64_t at = column(kKept); at < width_; at += lanes * n) visit(at, -1);
  }

  template <class S>
  __device__ void read(S (&out)[n], std::int64_t at, int pack) const {
    if (pack < 0) return load_pack(out, row_ + at);
#pragma unroll
    for (int i = 0; i < n; ++i) out[i] = Element<T>::template widen<S>(kept_[pack][i]);
  }

 private:
  __device__ std::int64_t column(int p) const {
    return first_ + static_cast<std::int64_t>(p) * lanes * n;
  }

  const T* row_;
  std::int64_t width_, first_;
  T kept_[kKept][n];
};

template <class T, int n, int lanes>
__global__ void __launch_bounds__(kThreadsOf<lanes>)
    normalize_rows(const __grid_constant__ LayerNormLaunch launch, const LayerNormTensors t) {
  using S = Sum<T>;
  const RowWalk<(lanes > 32), kWarps> walk;
  const S share = S(1) / static_cast<S>(launch.width);
  for (std::int64_t row = walk.first; row < launch.rows; row += walk.step) {
    const Share<T, n, lanes> x(static_cast<const T*>(t.x) + row * launch.width, launch.width);
    S values[n], sum = 0, squares = 0;
    x.for_packs([&](std::int64_t at, int pack) {
      x.read(values, at, pack);
#pragma unroll
      for (int i = 0; i < n; ++i) sum += values[i];
    });
    // All threads of a launch take the same branch.
    const S mean = t.mean != nullptr ? sum_row<lanes>(sum) * share : S(0);
    x.for_packs([&](std::int64_t at, int pack) {
      x.read(values, at, pack);
#pragma unroll
      for (int i = 0; i < n; ++i) squares += (values[i] - mean) * (values[i] - mean);
    });
    const S rstd =
        root_reciprocal(sum_row<lanes>(squares) * share + static_cast<S>(launch.epsilon));
    if (threadIdx.x % lanes == 0) static_cast<S*>(t.rstd)[row] = rstd;
    if (t.mean != nullptr && threadIdx.x % lanes == 0) static_cast<S*>(t.mean)[row] = mean;
    x.for_packs([&](std::int64_t at, int pack) {
      S scale[n], bias[n] = {};
      load_pack(scale, static_cast<const T*>(t.scale) + at);
      if (t.bias != nullptr) load_pack(bias, static_cast<const T*>(t.bias) + at);
      x.read(values, at, pack);
#pragma unroll
      for (int i = 0; i < n; ++i) values[i] = (values[i] - mean) * rstd * scale[i] + bias[i];
      store_pack(static_cast<T*>(t.y) + row * launch.width + at, values);
    });
  }
}

template <class S>
__device__ S mean_of(const LayerNormGradTensors& t, std::int64_t row) {
  return t.mean != nullptr ? static_cast<const S*>(t.mean)[row] : S(0);
}

template <class T, int n, int lanes>
__global__ void __launch_bounds__(kThreadsOf<lanes>)
    differentiate_rows(const __grid_constant__ LayerNormLaunch launch,
                       const LayerNormGradTensors t) {
  using S = Sum<T>;
  const RowWalk<(lanes > 32), kWarps> walk;
  const S share = S(1) / static_cast<S>(launch.width);
  for (std::int64_t row = walk.first; row < launch.rows; row += walk.step) {
    const S mean = mean_of<S>(t, row), rstd = static_cast<const S*>(t.rstd)[row];
    const Share<T, n, lanes> dy(static_cast<const T*>(t.dy) + row * launch.width, launch.width),
        x(static_cast<const T*>(t.x) + row * launch.width, launch.width),
        addend(t.addend == nullptr ? nullptr : static_cast<const T*>(t.addend) + row * launch.width,
               launch.width);
    S g[n], normal[n], first = 0, second = 0;
    // g = dy · scale and normal = (x - mean) · rstd
    const auto read = [&](std::int64_t at, int pack) {
      S scale[n];
      load_pack(scale, static_cast<const T*>(t.scale) + at);
      dy.read(g, at, pack);
      x.read(normal, at, pack);
#pragma unroll
      for (int i = 0; i < n; ++i) g[i] *= scale[i], normal[i] = (normal[i] - mean) * rstd;
    };
    dy.for_packs([&](std::int64_t at, int pack) {
      read(at, pack);
#pragma unroll
      for (int i = 0; i < n; ++i) first += g[i], second += g[i] * normal[i];
    });
    first = t.mean != nullptr ? sum_row<lanes>(first) * share : S(0);
    second = sum_row<lanes>(second) * share;
    dy.for_packs([&](std::int64_t at, int pack) {
      read(at, pack);
#pragma unroll
      for (int i = 0; i < n; ++i) g[i] = (g[i] - first - normal[i] * second) * rstd;
      if (t.addend != nullptr) {
        S more[n];
        addend.read(more, at, pack);
#pragma unroll
        for (int i = 0; i < n; ++i) g[i] += more[i];
      }
      store_pack(static_cast<T*>(t.dx) + row * launch.width + at, g);
    });
  }
}

/// A piece of rows and 32 packs of columns at a time, the warps taking rows in turn: sums[piece][0]
/// are those of dscale, sums[piece][1] those of dbias. Of 16-bit types a few rows are added in f32
/// first: conversions to double are slow. Later rows first: dx was computed just before, in the
/// order of rows, and the cache has the last ones.
template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const __grid_constant__ LayerNormLaunch launch, const LayerNormGradTensors t,
             double* sums, RowPieces pieces) {
  using S = Sum<T>;
  constexpr int batch = 4;
  const std::int64_t across = (launch.width + 32 * n - 1) / (32 * n);
  for (std::int64_t task = blockIdx.x; task < across * pieces.count; task += gridDim.x) {
    const Division at = divide(across * pieces.count - 1 - task, across);
    const std::int64_t column = (at.remainder * 32 + threadIdx.x % 32) * n;
    const std::int64_t begin = at.quotient * pieces.per_piece;
    const std::int64_t end =
        begin + pieces.per_piece < launch.rows ? begin + pieces.per_piece : launch.rows;
    double both[2 * n] = {};
    for (std::int64_t row = begin + threadIdx.x / 32; row < end && column < launch.width;
         row += batch * kWarps) {
      T dy[batch][n], x[batch][n];
      S mean[batch], rstd[batch];
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        const std::int64_t r = row + b * kWarps;
        if (r >= end) continue;
        load_words(dy[b], static_cast<const T*>(t.dy) + r * launch.width + column);
        load_words(x[b], static_cast<const T*>(t.x) + r * launch.width + column);
        mean[b] = mean_of<S>(t, r), rstd[b] = static_cast<const S*>(t.rstd)[r];
      }
      float few[2 * n] = {};
      const auto add = [&](int i, S term) {
        if constexpr (sizeof(T) == 2)
          few[i] += term;
        else
          both[i] += term;
      };
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        if (row + b * kWarps >= end) continue;
#pragma unroll
        for (int i = 0; i < n; ++i) {
          const S g = Element<T>::template widen<S>(dy[b][i]);
          add(i, g * ((Element<T>::template widen<S>(x[b][i]) - mean[b]) * rstd[b]));
          add(n + i, g);
        }
      }
#pragma unroll
      for (int i = 0; i < 2 * n; ++i)
        if (sizeof(T) == 2) both[i] += few[i];
    }
    sum_warps(both);
    if (threadIdx.x >= 32 || column >= launch.width) continue;
    double* const out = sums + at.quotient * 2 * launch.width + column;
#pragma unroll
    for (int i = 0; i < n; ++i) out[i] = both[i], out[launch.width + i] = both[n + i];
  }
}

/// Whether packs of n elements of all these tensors begin at multiples of 16 bytes in every row.
template <class T, class... Pointers>
bool are_packed(std::int64_t width, const Pointers*... tensors) {
  return width % (16 / static_cast<int>(sizeof(T))) == 0 && (... && aligned16(tensors));
}

/// visit(lanes) for rows of so many elements. From any address few forms are enough.
template <int n, class Visit>
Status with_lanes(std::int64_t width, const Visit& visit) {
  const auto keep = [&](int lanes) { return width <= lanes * n * kKept; };
  if (keep(32)) return visit(std::integral_constant<int, 32>());
  if constexpr (n > 1) {
    if (keep(64)) return visit(std::integral_constant<int, 64>());
    if (keep(128)) return visit(std::integral_constant<int, 128>());
  }
  return visit(std::integral_constant<int, 256>());
}

/// Queues a kernel whose rows have so many lanes.
template <int lanes, class... Parameters, class Tensors>
Status launch_rows(void (*kernel)(Parameters...), const LayerNormLaunch& l, const Tensors& t,
                   Stream stream) {
  return launch(kernel, blocks_for(l.rows, lanes > 32 ? 1 : kWarps, 65535), kThreadsOf<lanes>, 0,
                stream, l, t);
}

template <class T, int n>
Status normalize(const LayerNormLaunch& l, const LayerNormTensors& t, Stream stream) {
  return with_lanes<n>(l.width, [&](auto lanes) {
    return launch_rows<lanes.value>(normalize_rows<T, n, lanes.value>, l, t, stream);
  });
}

template <class T, int n>
Status differentiate(const LayerNormLaunch& l, const LayerNormGradTensors& t, double* workspace,
                     Stream stream) {
  Status status = with_lanes<n>(l.width, [&](auto lanes) {
    return launch_rows<lanes.value>(differentiate_rows<T, n, lanes.value>, l, t, stream);
  });
  if (status != cudaSuccess) return status;
  const RowPieces pieces = row_pieces(l.rows, l.width);
  status = launch(sum_rows<T, n>, blocks_for(pieces.count * divide_up(l.width, 32 * n), 1, 65535),
                  kThreads, 0, stream, l, t, workspace, pieces);
  if (status != cudaSuccess) return status;
  return add_all_pieces<T>(t.dscale, t.dbias, workspace, l.width, pieces.count, stream);
}

}  // namespace

Status run_layer_norm(const LayerNormLaunch& launch, const LayerNormTensors& t, Stream stream) {
  return with_floating(launch.dtype, [&](auto element) {
    using T = decltype(element);
    return are_packed<T>(launch.width, t.x, t.scale, t.bias, t.y)
               ? normalize<T, 16 / static_cast<int>(sizeof(T))>(launch, t, stream)
               : normalize<T, 1>(launch, t, stream);
  });
}

Status run_layer_norm_grad(const LayerNormLaunch& launch, const LayerNormGradTensors& t,
                           double* workspace, Stream stream) {
  return with_floating(launch.dtype, [&](auto element) {
    using T = decltype(element);
    return are_packed<T>(launch.width, t.dy, t.x, t.scale, t.addend, t.dx)
               ? differentiate<T, 16 / static_cast<int>(sizeof(T))>(launch, t, workspace, stream)
               : differentiate<T, 1>(launch, t, workspace, stream);
  });
}

}  // namespace alpa::cuda
