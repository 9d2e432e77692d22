#pragma once
/// Shared by the kernels (.cu files): launching, element types at run time, index arithmetic.
/// Device code and its launchers only.
#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/pack.h"

namespace alpa::cuda {

/// Queues kernel(arguments…); an empty grid is not a launch.
template <class... Parameters, class... Arguments>
Status launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads,
              std::size_t shared_bytes, Stream stream, const Arguments&... arguments) {
  if (blocks <= 0) return cudaSuccess;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

/// The block's shared memory whose size the launch gave, 16-byte aligned.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ uint4 alpa_dynamic_shared[];
  return reinterpret_cast<unsigned char*>(alpa_dynamic_shared);
}

/// Blocks for `work` units at `per_block` each, at most `limit`: beyond that, blocks loop.
inline std::int64_t blocks_for(std::int64_t work, std::int64_t per_block,
                               std::int64_t limit = 4096) {
  const std::int64_t blocks = (work + per_block - 1) / per_block;
  return blocks < limit ? blocks : limit;
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

inline bool aligned16(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

/// visit(T{}) with the type that stores `dtype`.
template <class Visit>
auto with_element(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f32: return visit(float());
    case DType::bf16: return visit(Bf16());
    case DType::f16: return visit(F16());
    case DType::f64: return visit(double());
    case DType::i32: return visit(std::int32_t());
    default: return visit(std::uint8_t());
  }
}

/// The same on the device, for elements that are computed with as S: f64 and i32 take doubles.
template <class S, class Visit>
__device__ void with_stored(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f32: return visit(float());
    case DType::bf16: return visit(Bf16());
    case DType::f16: return visit(F16());
    case DType::u8: return visit(std::uint8_t());
    case DType::f64:
      if constexpr (sizeof(S) == 8) visit(double());
      return;
    case DType::i32:
      if constexpr (sizeof(S) == 8) visit(std::int32_t());
      return;
  }
}

/// body(i) for this thread's share of the numbers below `count`.
template <class Body>
__device__ void for_share(std::int64_t count, const Body& body) {
  const std::int64_t threads = blockDim.x;
  for (std::int64_t i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads)
    body(i);
}

/// Quotient and remainder of non-negative numbers; most fit in 32 bits, where a
/// division is four times faster.
struct Division {
  std::int64_t quotient, remainder;
};
__device__ inline Division divide(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) != 0) return {a / b, a % b};
  const std::uint32_t x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b),
                      q = x / y;
  return {static_cast<std::int64_t>(q), static_cast<std::int64_t>(x - q * y)};
}

/// Position of `index`, computed in place.
__device__ inline std::int64_t inline_position(const Walk& walk, std::int64_t index) {
  std::int64_t at = 0;
#pragma unroll 1
  for (int d = walk.dims - 1; d > 0; --d) {
    const Division part = divide(index, walk.extent[d]);
    at += part.remainder * walk.stride[d];
    index = part.quotient;
  }
  return at + index * walk.stride[0];
}

/// Position of `index` where several dimensions are walked: kept out of the loops that
/// call it, which are unrolled.
__device__ __noinline__ inline std::int64_t position_of_many(const Walk& walk, std::int64_t index) {
  return inline_position(walk, index);
}

/// Position of `index`.
__device__ inline std::int64_t position(const Walk& walk, std::int64_t index) {
  return walk.dims <= 1 ? index * walk.stride[0] : position_of_many(walk, index);
}

}  // namespace alpa::cuda
