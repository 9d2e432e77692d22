// How the emulation runs the blocks of a launch: their order, their shared memory, and what a card
// would refuse.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <vector>

#include "cuda_runtime.h"
#include "emulation.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/tensor_core.h"
#include "support/program.h"

namespace block_test {

using alpa::emulation::probe_shared;
using alpa::emulation::restart;

namespace {

/// A stream and zeros on a machine of its own.
struct Fixture {
  cudaStream_t stream;
  int* data = nullptr;

  explicit Fixture(const alpa::emulation::Machine& machine = {}) {
    restart(machine);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaMalloc(&data, 4096 * sizeof(int)) == cudaSuccess);
    REQUIRE(cudaMemset(data, 0, 4096 * sizeof(int)) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  ~Fixture() {
    cudaFree(data);
    cudaStreamDestroy(stream);
    cudaGetLastError();
    restart({});
  }

  cudaError_t run(void (*kernel)(int*), unsigned blocks, unsigned threads) {
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = threads, config.stream = stream;
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, data);
    return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
  }
  std::vector<int> numbers(std::size_t count) const {
    std::vector<int> host(count);
    REQUIRE(cudaMemcpy(host.data(), data, count * sizeof(int), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return host;
  }
};

}  // namespace

#if !defined(__SANITIZE_THREAD__)
namespace {

void __global__ note_block(int* data) { data[1 + data[0]++] = static_cast<int>(blockIdx.x); }
void __global__ note_warp(int* data) {
  if (threadIdx.x % 32 == 0) data[1 + data[0]++] = static_cast<int>(threadIdx.x / 32);
}

/// Blocks or warps in the order in which they ran.
std::vector<int> order_of(std::uint64_t seed, void (*kernel)(int*), unsigned blocks,
                          unsigned threads, std::size_t count) {
  Fixture f({.seed = seed});
  REQUIRE(f.run(kernel, blocks, threads) == cudaSuccess);
  const std::vector<int> numbers = f.numbers(1 + count);
  CHECK(numbers[0] == static_cast<int>(count));
  return {numbers.begin() + 1, numbers.end()};
}

}  // namespace

TEST_CASE("the seed draws the order of a launch's blocks and of a block's warps") {
  for (const bool of_warps : {false, true}) {
    const auto order = [&](std::uint64_t seed) {
      return of_warps ? order_of(seed, note_warp, 1, 512, 16)
                      : order_of(seed, note_block, 16, 1, 16);
    };
    std::vector<int> ascending(16);
    std::iota(ascending.begin(), ascending.end(), 0);
    const std::vector<int> first = order(1);
    CHECK(first == order(1));
    CHECK(first != order(2));
    CHECK(first != ascending);
    std::vector<int> sorted = first;
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == ascending);
  }
}
#endif

TEST_CASE("static and dynamic shared memory are filled before every block") {
  for (const unsigned char fill : {0xa5, 0x3c}) {
    Fixture f({.shared_fill = fill});
    const std::size_t words = 2 * 64 * 3;
    for (int launch = 0; launch < 2; ++launch) {
      REQUIRE(probe_shared(reinterpret_cast<unsigned*>(f.data), 3, 64, f.stream) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(f.stream) == cudaSuccess);
      CHECK(f.numbers(words) == std::vector<int>(words, static_cast<int>(fill * 0x01010101u)));
    }
  }
}

namespace {

template <int threads>
void __global__ __launch_bounds__(threads, 2) bounded(int* data) {
  data[threadIdx.x] = 1;
}
constexpr int kFew = 96;
template <class T>
void __global__ __launch_bounds__(kFew) few(T* data) {
  data[threadIdx.x] = 1;
}
void __global__ unbounded(int* data) { data[threadIdx.x] = 1; }

}  // namespace

TEST_CASE("a launch of more threads than __launch_bounds__ allows fails") {
  Fixture f;
  CHECK(f.run(bounded<128>, 1, 128) == cudaSuccess);
  CHECK(f.run(bounded<128>, 1, 129) == cudaErrorInvalidConfiguration);
  CHECK(f.run(bounded<1>, 1, 1) == cudaSuccess);
  CHECK(f.run(bounded<1>, 1, 2) == cudaErrorInvalidConfiguration);
  CHECK(f.run(few<int>, 1, 96) == cudaSuccess);
  CHECK(f.run(few<int>, 1, 97) == cudaErrorInvalidConfiguration);
  CHECK(f.run(unbounded, 1, 1024) == cudaSuccess);
  auto* const words = reinterpret_cast<unsigned*>(f.data);
  CHECK(probe_shared(words, 1, 64, f.stream) == cudaSuccess);
  CHECK(probe_shared(words, 1, 65, f.stream) == cudaErrorInvalidConfiguration);
}

namespace {

/// Rows of a matrix `shift` elements after a multiple of 16 bytes.
template <int shift>
void __global__ load_rows(int* data) {
  __shared__ uint4 memory[33];
  auto* const rows = reinterpret_cast<unsigned short*>(memory);
  for (unsigned i = threadIdx.x; i < 33 * 8; i += 32) rows[i] = static_cast<unsigned short>(i);
  __syncwarp();
  unsigned pairs[4];
  alpa::cuda::load_matrices<false>(pairs, rows + threadIdx.x * 8 + shift);
  data[threadIdx.x] = static_cast<int>(pairs[0]);
}

}  // namespace

TEST_CASE("rows of matrices that begin at no multiple of 16 bytes end the launch") {
  {
    Fixture f;
    REQUIRE(f.run(load_rows<0>, 1, 32) == cudaSuccess);
    CHECK(f.numbers(2) == std::vector<int>{0x00010000, 0x00030002});
  }
  Fixture f;
  CHECK(f.run(load_rows<4>, 1, 32) == cudaErrorLaunchFailure);
}

#if defined(__SANITIZE_THREAD__)
namespace {

void __global__ write_one_word(int* data) {
  if (threadIdx.x == 0) data[0] = static_cast<int>(blockIdx.x);
}

}  // namespace

TEST_CASE("blocks write one word" * doctest::skip()) {
  Fixture f;
  CHECK(f.run(write_one_word, 16, 32) == cudaSuccess);
}
TEST_CASE("blocks write words of their own" * doctest::skip()) {
  Fixture f;
  for (int i = 0; i < 4; ++i)
    CHECK(probe_shared(reinterpret_cast<unsigned*>(f.data), 16, 64, f.stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(f.stream) == cudaSuccess);
}

TEST_CASE("for ThreadSanitizer nothing orders the blocks of a launch, and launches are ordered") {
  const auto [races, status] = alpa::testing::run_skipped_case("blocks write one word");
  CHECK(races.find("WARNING: ThreadSanitizer: data race") != std::string::npos);
  CHECK(status != 0);
  const auto [none, success] = alpa::testing::run_skipped_case("blocks write words of their own");
  CHECK(none.find("ThreadSanitizer") == std::string::npos);
  CHECK(success == 0);
}
#endif

}  // namespace block_test
