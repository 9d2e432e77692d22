// Streams, events, memory and errors of the emulation behave as CUDA's.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <vector>

#include "cuda_runtime.h"
#include "emulation.h"

namespace stream_test {

using alpa::emulation::restart;

namespace {

/// A stream and memory of one device.
struct Fixture {
  cudaStream_t a, b;
  int* data = nullptr;

  explicit Fixture(unsigned flags = cudaStreamNonBlocking) {
    restart({});
    REQUIRE(cudaStreamCreateWithFlags(&a, flags) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&b, flags) == cudaSuccess);
    REQUIRE(cudaMalloc(&data, 1024 * sizeof(int)) == cudaSuccess);
  }
  ~Fixture() {
    cudaFree(data);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    restart({});
  }

  /// The first `count` numbers of the device.
  std::vector<int> numbers(std::size_t count) const {
    std::vector<int> host(count);
    REQUIRE(cudaMemcpy(host.data(), data, count * sizeof(int), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return host;
  }
};

/// Holds a stream until it is opened.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> open = promise.get_future().share();

  void hold(cudaStream_t stream) {
    cudaLaunchHostFunc(
        stream, [](void* gate) { static_cast<Gate*>(gate)->open.wait(); }, this);
  }
};

void __global__ count_threads(int* data) { data[blockIdx.x * blockDim.x + threadIdx.x] += 1; }

void launch(cudaStream_t stream, void (*kernel)(int*), int* data, unsigned threads = 32) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 1, config.blockDim = threads, config.stream = stream;
  CHECK(cudaLaunchKernelEx(&config, kernel, data) == cudaSuccess);
}

}  // namespace

TEST_CASE("a stream works while the host goes on, in order") {
  Fixture f;
  Gate gate;
  gate.hold(f.a);
  CHECK(cudaMemsetAsync(f.data, 0, 256, f.a) == cudaSuccess);
  launch(f.a, count_threads, f.data);
  launch(f.a, count_threads, f.data);
  CHECK(cudaStreamQuery(f.a) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
  gate.promise.set_value();
  CHECK(cudaStreamSynchronize(f.a) == cudaSuccess);
  CHECK(cudaStreamQuery(f.a) == cudaSuccess);
  CHECK(f.numbers(64) == [] {
    std::vector<int> expected(64, 0);
    std::fill_n(expected.begin(), 32, 2);
    return expected;
  }());
}

TEST_CASE("an event holds another stream back until what it was recorded behind is done") {
  Fixture f;
  Gate gate;
  cudaEvent_t event;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);  // never recorded
  gate.hold(f.a);
  CHECK(cudaEventRecord(event, f.a) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(f.b, event) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(f.b) == cudaErrorNotReady);
  gate.promise.set_value();
  CHECK(cudaStreamSynchronize(f.b) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  cudaEventDestroy(event);
}

TEST_CASE("the default stream waits for blocking streams and for no others") {
  for (const bool blocking : {false, true}) {
    Fixture f(blocking ? cudaStreamDefault : cudaStreamNonBlocking);
    Gate gate;
    gate.hold(f.a);
    const auto query = std::async(std::launch::async, [&] { return cudaMemset(f.data, 0, 4); });
    query.wait();
    if (!blocking) CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
    if (blocking) CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
    gate.promise.set_value();
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  }
}

TEST_CASE("pageable memory is read when the copy is queued, pinned memory when it is made") {
  Fixture f;
  int pageable = 1, *pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, sizeof(int)) == cudaSuccess);
  *pinned = 1;
  Gate gate;
  gate.hold(f.a);
  CHECK(cudaMemcpyAsync(f.data, &pageable, 4, cudaMemcpyHostToDevice, f.a) == cudaSuccess);
  CHECK(cudaMemcpyAsync(f.data + 1, pinned, 4, cudaMemcpyHostToDevice, f.a) == cudaSuccess);
  pageable = *pinned = 2;
  gate.promise.set_value();
  CHECK(cudaStreamSynchronize(f.a) == cudaSuccess);
  CHECK(f.numbers(2) == std::vector<int>{1, 2});
  cudaFreeHost(pinned);
}

TEST_CASE("memory is limited, counted and full of NaN") {
  restart({.devices = 1, .memory_bytes = 1 << 20});
  const std::size_t before = alpa::emulation::allocations(0);
  float *first = nullptr, *second = nullptr, host = 0;
  CHECK(cudaMalloc(&first, 600 << 10) == cudaSuccess);
  CHECK(cudaMalloc(&second, 600 << 10) == cudaErrorMemoryAllocation);
  std::size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == 1 << 20);
  CHECK(free == total - (600 << 10));
  CHECK(cudaMemcpy(&host, first, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(std::isnan(host));
  CHECK(cudaMemcpy(&host, first + (600 << 8), 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaFree(first) == cudaSuccess);
  CHECK(cudaMalloc(&second, 600 << 10) == cudaSuccess);
  CHECK(alpa::emulation::allocations(0) == before + 2);
  cudaFree(second);
  cudaGetLastError();
  restart({});
}

TEST_CASE("a kernel that fails takes every later call of its device with it") {
  Fixture f;
  restart({.devices = 1, .fail_kernel = 2});
  launch(f.a, count_threads, f.data);
  CHECK(cudaStreamSynchronize(f.a) == cudaSuccess);
  launch(f.a, count_threads, f.data);
  CHECK(cudaStreamSynchronize(f.a) == cudaErrorIllegalAddress);
  CHECK(cudaMemset(f.data, 0, 4) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  restart({});
}

namespace {

template <bool synchronised>
void __global__ reverse(int* data) {
  __shared__ int shared[64];
  shared[threadIdx.x] = data[threadIdx.x];
  if constexpr (synchronised) __syncthreads();
  const int other = shared[63 - threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = other;
}

void __global__ leave_early(int*) {
  if (threadIdx.x % 2 == 0) __syncthreads();
}

}  // namespace

TEST_CASE("a barrier orders the threads of a block, and one that is missing shows") {
  Fixture f;
  std::vector<int> numbers(64), reversed(64);
  for (int i = 0; i < 64; ++i) numbers[i] = i, reversed[i] = 63 - i;
  const auto run = [&](void (*kernel)(int*)) {
    cudaMemcpy(f.data, numbers.data(), 256, cudaMemcpyHostToDevice);
    launch(f.a, kernel, f.data, 64);
    cudaStreamSynchronize(f.a);
    return f.numbers(64);
  };
  CHECK(run(reverse<true>) == reversed);
#if !defined(__SANITIZE_THREAD__)
  CHECK(run(reverse<false>) != reversed);
#endif
}

TEST_CASE("threads that leave while others wait at a barrier are a launch failure") {
  Fixture f;
  launch(f.a, leave_early, f.data, 64);
  CHECK(cudaStreamSynchronize(f.a) == cudaErrorLaunchFailure);
  restart({});
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("the host faults on a card's memory, and a kernel on what lies behind it") {
  const auto ends = [](auto body) {  // the signal that ends a process which does it
    std::fflush(nullptr);
    const pid_t process = fork();
    if (process == 0) {
      signal(SIGSEGV, SIG_DFL);
      body();
      _exit(0);
    }
    int status = 0;
    waitpid(process, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  };
  const int key = pkey_alloc(0, 0);
  const auto touch = [] {
    int* data;
    cudaMalloc(&data, 512);
    *static_cast<volatile int*>(data) = 1;
  };
  CHECK(ends(touch) == (key < 0 ? 0 : SIGSEGV));
  const auto overrun = [] {
    int* data;
    cudaStream_t stream;
    cudaMalloc(&data, 512);
    cudaStreamCreate(&stream);
    launch(stream, count_threads, data + 128);
    cudaStreamSynchronize(stream);
  };
  CHECK(ends(overrun) == SIGSEGV);
  if (key >= 0) pkey_free(key);
}
#endif

}  // namespace stream_test
