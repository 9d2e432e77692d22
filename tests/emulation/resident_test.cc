// Kernels whose blocks loop over their work are launched as many blocks as the card runs at once.
#include <doctest/doctest.h>

#include <vector>

#include "cuda_runtime.h"
#include "emulation.h"
#include "kernels/cuda/clear.h"
#include "kernels/cuda/update.h"

namespace alpa::resident_test {
namespace {

/// The emulated card has as many multiprocessors, and each runs a block at once.
constexpr unsigned kResident = 132;

struct Memory {
  explicit Memory(std::size_t bytes) { REQUIRE(cudaMalloc(&data, bytes) == cudaSuccess); }
  ~Memory() { cudaFree(data); }
  void* data = nullptr;
};

/// Blocks of the kernels that `queue(elements)` queues.
template <class Queue>
unsigned blocks_of(const Queue& queue, std::int64_t elements) {
  emulation::take_largest_grid();
  const Memory x(elements * sizeof(float)), sums((elements / cuda::kUpdateChunk + 2) * 8);
  CHECK(cudaMemset(x.data, 0, elements * sizeof(float)) == cudaSuccess);
  CHECK(queue(static_cast<float*>(x.data), static_cast<double*>(sums.data), elements) ==
        cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  return emulation::take_largest_grid();
}

TEST_CASE("optimizers, sums, norms and clears are launched in one wave of equal shares") {
  const auto add = [](float* x, double*, std::int64_t n) {
    cuda::UpdateTensor t;
    t.w = t.gradient = x, t.new_w = x, t.elements = n;
    return cuda::run_add(&t, 1, nullptr);
  };
  const auto square = [](float* x, double* sums, std::int64_t n) {
    const cuda::NormTensor t = {x, sums, f32, f64, n};
    return cuda::run_squared_norms(&t, 1, sums + 1, nullptr);
  };
  const auto clear = [](float* x, double*, std::int64_t n) {
    const cuda::ClearedBytes stretch = {x, n * 4};
    return cuda::run_clear(&stretch, 1, nullptr);
  };
  static_assert(cuda::kClearedChunk == cuda::kUpdateChunk * sizeof(float));
  for (const unsigned chunks : {1u, kResident - 1, kResident, kResident + 1, 3 * kResident}) {
    CAPTURE(chunks);
    const std::int64_t elements = chunks * cuda::kUpdateChunk;
    const unsigned expected = chunks < kResident ? chunks : kResident;
    CHECK(blocks_of(add, elements) == expected);
    CHECK(blocks_of(square, elements) == expected);
    CHECK(blocks_of(clear, elements) == expected);
  }
}

}  // namespace
}  // namespace alpa::resident_test
