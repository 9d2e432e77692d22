// kernels/cuda/step_numbers.cu — advances the current micro-batch of a list, and selects
// its part of the batch inputs
#include "kernels/cuda/step_numbers.h"

#include "kernels/cuda/copy_place.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

__global__ void __launch_bounds__(1) next_micro_batch(StepNumbers* now) { ++now->micro_batch; }

__device__ void store_for_host(std::uint64_t value, std::uint64_t* to) {
#ifdef __CUDACC__
  *static_cast<volatile std::uint64_t*>(to) = value;
  __threadfence_system();
#else
  __atomic_store_n(to, value, __ATOMIC_RELAXED);
#endif
}

__global__ void __launch_bounds__(1)
    mark(const StepNumbers* now, std::uint64_t place, std::uint64_t* to) {
  const std::int64_t micro_batch = now != nullptr ? now->micro_batch : 0;
  store_for_host(place | static_cast<std::uint64_t>(micro_batch) << 32, to);
}

/// All words of a thread are loaded, the last word instead of those behind it,
/// before the first is stored.
template <class W>
__global__ void __launch_bounds__(kThreads)
    load_part(const StepNumbers* now, const W* parts, std::int64_t words, W* y) {
  const W* const x = parts + now->micro_batch * words;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kPerThread;
  std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kPerThread + threadIdx.x;
  for (; first < words; first += stride) {
    W value[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const std::int64_t i = first + k * kThreads;
      value[k] = x[i < words ? i : words - 1];
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k)
      if (first + k * kThreads < words) y[first + k * kThreads] = value[k];
  }
}

/// Bytes of the widest word of which there are whole numbers in `bytes`.
int word_of(std::int64_t bytes) {
  int word = 16;
  while (bytes % word != 0) word /= 2;
  return word;
}

}  // namespace

Status run_next_micro_batch(StepNumbers* now, Stream stream) {
  return launch(next_micro_batch, 1, 1, 0, stream, now);
}

Status run_mark(const StepNumbers* now, std::uint64_t place, std::uint64_t* to, Stream stream) {
  return launch(mark, 1, 1, 0, stream, now, place, to);
}

Status run_load_part(const StepNumbers* now, const void* parts, std::int64_t bytes, void* y,
                     Stream stream) {
  return with_word(word_of(bytes), [&](auto word) {
    using W = decltype(word);
    const auto words = bytes / static_cast<std::int64_t>(sizeof(W));
    return launch(load_part<W>, blocks_for(words, kThreads * kPerThread), kThreads, 0, stream, now,
                  static_cast<const W*>(parts), words, static_cast<W*>(y));
  });
}

}  // namespace alpa::cuda
