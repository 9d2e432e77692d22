// kernels/cuda/quantized_matmul.cu — quantized_matmul and quantized_matmul_grad
#include "kernels/cuda/quantized_matmul.h"

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

constexpr int kElements = 32;  ///< of a block
constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kTile = 64, kStep = 32;  ///< rows and results of a tile, and terms at a time
constexpr int kEach = 4;               ///< rows and results of a thread
constexpr int kFewRows = 8;

__device__ inline float half_at(const std::uint8_t* x) {
  return Element<F16>::widen<float>(F16{static_cast<std::uint16_t>(x[0] | x[1] << 8)});
}

/// Element i of a block of so many bytes.
template <int bytes>
__device__ inline float element_at(const std::uint8_t* block, int i) {
  const float scale = half_at(block);
  if (bytes == 34) return static_cast<float>(static_cast<std::int8_t>(block[2 + i])) * scale;
  const int pair = block[bytes - 16 + i % 16], number = i < 16 ? pair & 15 : pair >> 4;
  return bytes == 20 ? static_cast<float>(number) * scale + half_at(block + 2)
                     : static_cast<float>(number - 8) * scale;
}

/// A tile of results, of terms in steps that all threads bring to shared memory.
template <int bytes, bool backward>
__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __grid_constant__ QuantizedLaunch p, const float* x,
                   const std::uint8_t* kernel, float* y) {
  __shared__ float left[kStep][kTile + 1], right[kStep][kTile + 1];
  const std::int64_t inputs = p.blocks * kElements, terms = backward ? p.features : inputs,
                     results = backward ? inputs : p.features;
  const Division at = divide(blockIdx.x, (results + kTile - 1) / kTile);
  const std::int64_t row = at.quotient * kTile, column = at.remainder * kTile;
  const int down = threadIdx.x / (kTile / kEach), across = threadIdx.x % (kTile / kEach);
  float sums[kEach][kEach] = {};
  for (std::int64_t t = 0; t < terms; t += kStep) {
    for (int i = threadIdx.x; i < kTile * kStep; i += kThreads) {
      const int line = i / kStep, term = i % kStep;
      left[term][line] =
          row + line < p.rows && t + term < terms ? x[(row + line) * terms + t + term] : 0.0f;
      const int step = backward ? i / kTile : term, result = backward ? i % kTile : line;
      const std::int64_t feature = backward ? t + step : column + result,
                         input = backward ? column + result : t + step;
      right[step][result] =
          feature < p.features && input < inputs
              ? element_at<bytes>(kernel + (feature * p.blocks + input / kElements) * bytes,
                                  static_cast<int>(input % kElements))
              : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < kStep; ++k)
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j)
          sums[i][j] += left[k][down * kEach + i] * right[k][across * kEach + j];
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const std::int64_t r = row + down * kEach + i, c = column + across * kEach + j;
      if (r < p.rows && c < results) y[r * results + c] = sums[i][j];
    }
}

/// A warp per feature, of up to kFewRows rows: lane i multiplies element i of every block.
template <int bytes>
__global__ void __launch_bounds__(kThreads)
    multiply_few(const __grid_constant__ QuantizedLaunch p, const float* x,
                 const std::uint8_t* kernel, float* y) {
  const std::int64_t feature = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (feature >= p.features) return;
  float sums[kFewRows] = {};
  for (std::int64_t b = 0; b < p.blocks; ++b) {
    const float element = element_at<bytes>(kernel + (feature * p.blocks + b) * bytes, lane);
#pragma unroll
    for (int r = 0; r < kFewRows; ++r)
      if (r < p.rows) sums[r] += x[(r * p.blocks + b) * kElements + lane] * element;
  }
#pragma unroll
  for (int r = 0; r < kFewRows; ++r) {
    for (int apart = 16; apart > 0; apart /= 2) sums[r] += __shfl_xor_sync(~0u, sums[r], apart, 32);
    if (lane == 0 && r < p.rows) y[r * p.features + feature] = sums[r];
  }
}

template <int bytes>
Status run_blocks(const QuantizedLaunch& p, const float* x, const std::uint8_t* kernel, float* y,
                  Stream stream) {
  if (!p.backward && p.rows <= kFewRows)
    return launch(multiply_few<bytes>, divide_up(p.features, kWarps), kThreads, 0, stream, p, x,
                  kernel, y);
  const std::int64_t results = p.backward ? p.blocks * kElements : p.features;
  const std::int64_t tiles = divide_up(p.rows, kTile) * divide_up(results, kTile);
  return launch(p.backward ? multiply_tiles<bytes, true> : multiply_tiles<bytes, false>, tiles,
                kThreads, 0, stream, p, x, kernel, y);
}

}  // namespace

Status run_quantized_matmul(const QuantizedLaunch& p, const float* x, const std::uint8_t* kernel,
                            float* y, Stream stream) {
  switch (p.bytes) {
    case 18: return run_blocks<18>(p, x, kernel, y, stream);
    case 20: return run_blocks<20>(p, x, kernel, y, stream);
    default: return run_blocks<34>(p, x, kernel, y, stream);
  }
}

}  // namespace alpa::cuda
