#include "kernels/cuda/bits.h"

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBits = 8;

template <class T, bool keep>
__global__ void __launch_bounds__(kThreads)
    keep_or_apply(std::int64_t bytes, bool packed, T* x, unsigned char* bits) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < bytes;
       i += stride) {
    double values[kBits];
    T* const eight = x + i * kBits;
    if (packed)
      load_pack(values, eight);
    else
      load_some(values, eight, kBits);
    if (keep) {
      unsigned set = 0;
#pragma unroll
      for (int b = 0; b < kBits; ++b) set |= static_cast<unsigned>(values[b] > 0) << b;
      bits[i] = static_cast<unsigned char>(set);
      continue;
    }
    const unsigned set = bits[i];
#pragma unroll
    for (int b = 0; b < kBits; ++b)
      if ((set >> b & 1) == 0) values[b] = 0;
    if (packed)
      store_pack(eight, values);
    else
      store_some(eight, values, kBits);
  }
}

template <bool keep>
Status run(DType dtype, std::int64_t bytes, void* x, void* bits, Stream stream) {
  return with_element(dtype, [&](auto t) {
    using T = decltype(t);
    return launch(keep_or_apply<T, keep>, blocks_for(bytes, kThreads), kThreads, 0, stream, bytes,
                  aligned16(x), static_cast<T*>(x), static_cast<unsigned char*>(bits));
  });
}

}  // namespace

Status run_keep_bits(DType dtype, std::int64_t bytes, const void* x, void* bits, Stream stream) {
  return run<true>(dtype, bytes, const_cast<void*>(x), bits, stream);
}

Status run_apply_bits(DType dtype, std::int64_t bytes, const void* bits, void* x, Stream stream) {
  return run<false>(dtype, bytes, x, const_cast<void*>(bits), stream);
}

}  // namespace alpa::cuda
