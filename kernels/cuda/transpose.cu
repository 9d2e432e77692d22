// kernels/cuda/transpose.cu — transposition: square tiles are read along the rows of x and written
// along the rows of y. Both sides move vectors of v elements. A thread transposes blocks of v × v
// elements in registers, so that shared memory is accessed in vectors as well.
#include "kernels/cuda/copy_place.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;

/// `outer` walks the dimensions but the two that are exchanged: x is contiguous along the `rows`
/// one, y along the `columns` one.
struct TransposeLaunch {
  CopyLaunch outer;
  std::int64_t rows, columns, x_stride, y_stride;  ///< y's stride of rows, x's of columns
  std::int64_t tiles_down, tiles_across;
};

/// A tile in shared memory, as y's rows of vectors. One vector (of less than 4 bytes: 4 bytes) is
/// left free after every v rows, so that neighbouring threads, which write v rows apart, meet
/// different banks; they read neighbouring vectors.
template <class W, int v>
struct Tile {
  static constexpr int bytes = static_cast<int>(sizeof(W)) * v;
  using Vector = typename Word<bytes>::type;
  static constexpr int side = sizeof(W) >= 8 ? 32 : bytes == 4 && v == 4 ? 128 : 64;
  /// a block's threads, as vectors
  static constexpr int across = side / v, down = kThreads / across;
  /// of v × v elements, of a thread
  static constexpr int blocks = across / down;
  static constexpr int free = bytes < 4 ? 4 / bytes : 1;

  Vector words[side * across + across * free];

  __device__ Vector& at(int row, int vector) {
    return words[row * across + row / v * free + vector];
  }
};

/// Element b of each vector.
template <class W, int v, class Vector>
__device__ inline Vector gather(const Vector (&from)[v], int b) {
  W elements[v];
#pragma unroll
  for (int a = 0; a < v; ++a) {
    W row[v];
    memcpy(row, &from[a], sizeof row);
    elements[a] = row[b];
  }
  Vector result;
  memcpy(&result, elements, sizeof result);
  return result;
}

/// All loads of a tile are issued before the first is stored to shared memory.
template <class W, int v>
__global__ void __launch_bounds__(kThreads, 4)
    transpose_tiles(const __grid_constant__ TransposeLaunch t, const W* x, W* y) {
  using T = Tile<W, v>;
  using Vector = typename T::Vector;
  __shared__ T tile;
  const int fast = threadIdx.x % T::across, slow = threadIdx.x / T::across;
  const std::int64_t tiles = t.outer.elements * t.tiles_down * t.tiles_across;
  for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const Division across = divide(i, t.tiles_across), down = divide(across.quotient, t.tiles_down);
    const std::int64_t row = down.remainder * T::side, column = across.remainder * T::side;
    std::int64_t outer[] = {down.quotient};
    CopyPlace place[1];
    places_of(place, t.outer, outer);
    const int rows = static_cast<int>(t.rows - row < T::side ? t.rows - row : T::side);
    const int columns =
        static_cast<int>(t.columns - column < T::side ? t.columns - column : T::side);
    const W* from = x + place[0].x + row + fast * v + (column + slow * v) * t.x_stride;
    const std::int64_t next_block = (T::down - 1) * v * t.x_stride;
    Vector loaded[T::blocks][v];
#pragma unroll
    for (int k = 0; k < T::blocks; ++k, from += next_block)
#pragma unroll
      for (int a = 0; a < v; ++a, from += t.x_stride) {
        loaded[k][a] = Vector();
        if ((slow + k * T::down) * v + a < columns && fast * v < rows)
          loaded[k][a] = *reinterpret_cast<const Vector*>(from);
      }
#pragma unroll
    for (int k = 0; k < T::blocks; ++k)
#pragma unroll
      for (int b = 0; b < v; ++b)
        tile.at(fast * v + b, slow + k * T::down) = gather<W>(loaded[k], b);
    __syncthreads();
    Vector turned[T::blocks * v];
#pragma unroll
    for (int k = 0; k < T::blocks * v; ++k) turned[k] = tile.at(slow + k * T::down, fast);
    W* to = y + place[0].y + column + fast * v + (row + slow) * t.y_stride;
#pragma unroll
    for (int k = 0; k < T::blocks * v; ++k, to += T::down * t.y_stride)
      if (slow + k * T::down < rows && fast * v < columns)
        *reinterpret_cast<Vector*>(to) = turned[k];
    __syncthreads();
  }
}

TransposeLaunch transposition(const CopyLaunch& c, std::int64_t side) {
  const int fast = transposed_dim(c), last = c.dims - 1;
  TransposeLaunch t = {c, c.extent[fast], c.extent[last], c.x_stride[last], c.y_stride[fast], 0, 0};
  t.tiles_down = divide_up(t.rows, side);
  t.tiles_across = divide_up(t.columns, side);
  t.outer.dims = 0;
  t.outer.elements = c.elements / (t.rows * t.columns);
  for (int d = 0; d < last; ++d) {
    if (d == fast) continue;
    t.outer.extent[t.outer.dims] = c.extent[d];
    t.outer.x_stride[t.outer.dims] = c.x_stride[d];
    t.outer.y_stride[t.outer.dims++] = c.y_stride[d];
  }
  return t;
}

template <class W, int v>
Status run_vectors(const CopyLaunch& c, const void* x, void* y, Stream stream) {
  const TransposeLaunch t = transposition(c, Tile<W, v>::side);
  return launch(transpose_tiles<W, v>,
                blocks_for(t.outer.elements * t.tiles_down * t.tiles_across, 1, 65535), kThreads, 0,
                stream, t, static_cast<const W*>(x), static_cast<W*>(y));
}

}  // namespace

Status run_transpose(const CopyLaunch& c, const void* x, void* y, Stream stream) {
  const int v = transposed_vector(c, x, y);
  return with_word(c.element, [&](auto word) {
    using W = decltype(word);
    if constexpr (sizeof(W) <= 4)
      if (v == 4) return run_vectors<W, 4>(c, x, y, stream);
    if constexpr (sizeof(W) <= 8 && sizeof(W) > 1)
      if (v == 2) return run_vectors<W, 2>(c, x, y, stream);
    return run_vectors<W, 1>(c, x, y, stream);
  });
}

}  // namespace alpa::cuda
