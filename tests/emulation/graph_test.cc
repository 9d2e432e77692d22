// Capture and graphs of the emulation: what CUDA allows, what it forbids, and that
// order is what was captured.
#include <doctest/doctest.h>

#include <set>

#include "cuda_runtime.h"
#include "emulation.h"

namespace graph_test {

namespace {

void __global__ add(int* to, const int* from, int value) { *to = *from + value; }
void __global__ set(int* to, int value) { *to = value; }

struct Large {
  char bytes[5000];
};
void __global__ copy_large(char* to, double, const Large large) { *to = large.bytes[4999]; }

struct Fixture {
  cudaStream_t a, b;
  cudaEvent_t fork, join;
  int* data = nullptr;

  Fixture() {
    alpa::emulation::restart({});
    for (cudaStream_t* stream : {&a, &b})
      REQUIRE(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking) == cudaSuccess);
    for (cudaEvent_t* event : {&fork, &join})
      REQUIRE(cudaEventCreateWithFlags(event, cudaEventDisableTiming) == cudaSuccess);
    REQUIRE(cudaMalloc(&data, 16 * sizeof(int)) == cudaSuccess);
    REQUIRE(cudaMemset(data, 0, 16 * sizeof(int)) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);  // no other stream waits for it
    queue(a, 0, 0, 0);  // a kernel that is first launched in a capture fails
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  ~Fixture() {
    cudaFree(data);
    for (const cudaStream_t stream : {a, b}) cudaStreamDestroy(stream);
    for (const cudaEvent_t event : {fork, join}) cudaEventDestroy(event);
    cudaGetLastError();
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    REQUIRE(cudaStreamBeginCapture(a, mode) == cudaSuccess);
  }
  /// data[to] = data[from] + value, on `stream`.
  void queue(cudaStream_t stream, int to, int from, int value) {
    cudaLaunchConfig_t config = {};
    config.gridDim = 1, config.blockDim = 1, config.stream = stream;
    CHECK(cudaLaunchKernelEx(&config, add, data + to, data + from, value) == cudaSuccess);
  }
  void order(cudaStream_t before, cudaEvent_t event, cudaStream_t after) {
    CHECK(cudaEventRecord(event, before) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(after, event) == cudaSuccess);
  }
  cudaError_t end(cudaGraph_t* graph = nullptr) {
    cudaGraph_t made = nullptr;
    const cudaError_t error = cudaStreamEndCapture(a, &made);
    CHECK((made != nullptr) == (error == cudaSuccess));
    if (graph != nullptr)
      *graph = made;
    else
      cudaGraphDestroy(made);
    return error;
  }
  /// What data[i] holds after each of `launches` launches of what was captured.
  std::vector<int> launches(int launches, int i) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    REQUIRE(end(&graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
    std::vector<int> values(static_cast<std::size_t>(launches));
    for (int& value : values) {
      CHECK(cudaGraphLaunch(executable, a) == cudaSuccess);
      CHECK(cudaMemcpyAsync(&value, data + i, sizeof(int), cudaMemcpyDeviceToHost, a) ==
            cudaSuccess);
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    return values;
  }
};

}  // namespace

TEST_CASE("what two streams do between fork and join is captured and runs at every launch") {
  Fixture f;
  f.begin();
  f.queue(f.a, 0, 0, 1);
  f.order(f.a, f.fork, f.b);
  f.queue(f.b, 1, 0, 10);
  f.queue(f.a, 2, 0, 20);
  f.order(f.b, f.join, f.a);
  f.queue(f.a, 3, 1, 0);
  CHECK(f.launches(3, 3) == std::vector<int>{11, 12, 13});
}

TEST_CASE("the nodes of the last graph are counted by kind") {
  Fixture f;
  f.begin();
  f.queue(f.a, 0, 0, 1);
  f.queue(f.a, 1, 0, 1);
  CHECK(cudaMemcpyAsync(f.data + 2, f.data, 4, cudaMemcpyDeviceToDevice, f.a) == cudaSuccess);
  CHECK(cudaMemsetAsync(f.data + 3, 0, 4, f.a) == cudaSuccess);
  f.launches(1, 2);
  const alpa::emulation::GraphNodes nodes = alpa::emulation::last_graph();
  CHECK(nodes.kernels == 2);
  CHECK(nodes.copies == 1);
  CHECK(nodes.clears == 1);
  CHECK(nodes.others == 0);
}

TEST_CASE("nodes have their streams' priorities only if the graph is made to use them") {
  Fixture f;
  cudaStream_t urgent;
  REQUIRE(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, -9) == cudaSuccess);
  f.begin();
  f.queue(f.a, 0, 0, 1);
  f.order(f.a, f.fork, urgent);
  f.queue(urgent, 1, 0, 1);
  f.order(urgent, f.join, f.a);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  REQUIRE(f.end(&graph) == cudaSuccess);
  CHECK(cudaGraphInstantiate(&executable, graph, 64) == cudaErrorInvalidValue);
  for (const unsigned long long flags : {0, cudaGraphInstantiateFlagUseNodePriority}) {
    REQUIRE(cudaGraphInstantiate(&executable, graph, flags) == cudaSuccess);
    const std::map<int, int> none, both = {{0, 1}, {-5, 1}};
    CHECK(alpa::emulation::last_graph().by_priority == (flags == 0 ? none : both));
    cudaGraphExecDestroy(executable);
  }
  cudaGraphDestroy(graph);
  cudaStreamDestroy(urgent);
}

#if !defined(__SANITIZE_THREAD__)  // which would report the race that is meant
TEST_CASE("a dependency that was not captured shows within a few launches") {
  Fixture f;
  f.begin();
  f.order(f.a, f.fork, f.b);
  f.queue(f.a, 0, 0, 1);
  f.queue(f.b, 1, 0, 0);  // reads what the other stream writes, and does not wait
  f.order(f.b, f.join, f.a);
  std::set<int> late;
  const std::vector<int> values = f.launches(30, 1);
  for (int i = 0; i < 30; ++i) late.insert(i + 1 - values[static_cast<std::size_t>(i)]);
  CHECK(late == std::set<int>{0, 1});
}
#endif

TEST_CASE("calls that wait or allocate fail during a capture and invalidate it") {
  Fixture f;
  void* memory = nullptr;
  const auto invalidates = [&](auto forbidden, cudaError_t expected) {
    f.begin();
    CHECK(forbidden() == expected);
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(f.a, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK(cudaMemsetAsync(f.data, 0, 4, f.a) == cudaErrorStreamCaptureInvalidated);
    CHECK(f.end() == cudaErrorStreamCaptureInvalidated);
  };
  invalidates([&] { return cudaMalloc(&memory, 16); }, cudaErrorStreamCaptureUnsupported);
  invalidates([&] { return cudaFree(f.data); }, cudaErrorStreamCaptureUnsupported);
  invalidates([&] { return cudaStreamSynchronize(f.a); }, cudaErrorStreamCaptureUnsupported);
  invalidates([&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported);
  invalidates([&] { return cudaMemset(f.data, 0, 4); }, cudaErrorStreamCaptureUnsupported);
  invalidates(
      [&] {
        cudaEventRecord(f.fork, f.a);
        return cudaEventQuery(f.fork);
      },
      cudaErrorCapturedEvent);
}

TEST_CASE(
    "a kernel that was never launched fails in a capture, and one that was asked about does not") {
  Fixture f;
  cudaLaunchConfig_t config = {};
  config.gridDim = 1, config.blockDim = 1, config.stream = f.a;
  f.begin();
  CHECK(cudaLaunchKernelEx(&config, set, f.data, 3) == cudaErrorStreamCaptureUnsupported);
  CHECK(f.end() == cudaErrorStreamCaptureInvalidated);
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(set)) == cudaSuccess);
  f.begin();
  CHECK(cudaLaunchKernelEx(&config, set, f.data, 3) == cudaSuccess);
  CHECK(f.launches(1, 0) == std::vector<int>{3});
}

TEST_CASE("parameters of kernels are laid out as CUDA does, and may be more than 4 KiB") {
  using alpa_emulation::parameter_bytes;
  static_assert(parameter_bytes<>() == 0 && parameter_bytes<char, double>() == 16);
  static_assert(parameter_bytes<char*, double, Large>() == 5016);
  Fixture f;
  cudaLaunchConfig_t config = {};
  config.gridDim = 1, config.blockDim = 1, config.stream = f.a;
  Large large = {};
  large.bytes[4999] = 7;
  CHECK(cudaMemset(f.data, 0, sizeof(int)) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);  // the stream does not wait for the memset
  CHECK(cudaLaunchKernelEx(&config, copy_large, reinterpret_cast<char*>(f.data), 1.0, large) ==
        cudaSuccess);
  int found = 0;
  CHECK(cudaMemcpyAsync(&found, f.data, 1, cudaMemcpyDeviceToHost, f.a) == cudaSuccess);
  CHECK(found == 7);
}

TEST_CASE("a relaxed capture allows what a global one forbids, and so does a relaxed thread") {
  Fixture f;
  void* memory = nullptr;
  f.begin(cudaStreamCaptureModeRelaxed);
  CHECK(cudaMalloc(&memory, 16) == cudaSuccess);
  CHECK(f.end() == cudaSuccess);
  f.begin();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(f.end() == cudaSuccess);
}

TEST_CASE("forks must be joined, and captures kept apart from other work and from each other") {
  Fixture f;
  f.begin();
  f.order(f.a, f.fork, f.b);
  f.queue(f.b, 1, 0, 1);
  CHECK(f.end() == cudaErrorStreamCaptureUnjoined);

  CHECK(cudaEventRecord(f.fork, f.b) == cudaSuccess);
  f.begin();
  CHECK(cudaStreamWaitEvent(f.a, f.fork) == cudaErrorStreamCaptureIsolation);
  CHECK(f.end() == cudaErrorStreamCaptureInvalidated);

  f.begin();
  REQUIRE(cudaStreamBeginCapture(f.b, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cudaEventRecord(f.fork, f.a) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(f.b, f.fork) == cudaErrorStreamCaptureMerge);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(f.b, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(f.end() == cudaErrorStreamCaptureInvalidated);
  CHECK(f.end() == cudaErrorIllegalState);
}

}  // namespace graph_test
