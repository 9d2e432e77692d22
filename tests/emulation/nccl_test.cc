// Emulated NCCL: results, and that members who disagree are told so.
#include "nccl.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "cuda_runtime.h"
#include "emulation.h"

namespace nccl_test {

namespace {

/// Ranks on a device each, driven by one thread.
struct Ranks {
  int size;
  std::vector<ncclComm_t> comms;
  std::vector<cudaStream_t> streams;
  std::vector<float*> data;

  explicit Ranks(int size) : size(size), comms(size), streams(size), data(size) {
    alpa::emulation::restart({.devices = size});
    REQUIRE(ncclCommInitAll(comms.data(), size, nullptr) == ncclSuccess);
    for (int r = 0; r < size; ++r) {
      cudaSetDevice(r);
      REQUIRE(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking) == cudaSuccess);
      REQUIRE(cudaMalloc(&data[r], 64 * sizeof(float)) == cudaSuccess);
      std::vector<float> host(64);
      for (int i = 0; i < 64; ++i) host[i] = static_cast<float>(100 * r + i);
      REQUIRE(cudaMemcpy(data[r], host.data(), 256, cudaMemcpyHostToDevice) == cudaSuccess);
    }
  }
  ~Ranks() {
    for (int r = 0; r < size; ++r) {
      cudaSetDevice(r);
      cudaFree(data[r]);
      cudaStreamDestroy(streams[r]);
    }
    for (const ncclComm_t comm : comms) ncclCommAbort(comm);
    cudaSetDevice(0);
  }

  template <class Call>
  ncclResult_t together(const Call& call) {
    ncclGroupStart();
    for (int r = 0; r < size; ++r) call(r);
    return ncclGroupEnd();
  }
  std::vector<float> host(int r, int begin, int count) {
    cudaStreamSynchronize(streams[r]);
    std::vector<float> values(static_cast<std::size_t>(count));
    cudaMemcpy(values.data(), data[r] + begin, values.size() * 4, cudaMemcpyDeviceToHost);
    return values;
  }
};

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("collectives give every rank its result") {
  Ranks x(3);
  CHECK(x.together([&](int r) {
    ncclAllReduce(x.data[r], x.data[r] + 10, 2, ncclFloat, ncclSum, x.comms[r], x.streams[r]);
    ncclReduceScatter(x.data[r], x.data[r] + 20, 1, ncclFloat, ncclMax, x.comms[r], x.streams[r]);
    ncclAllGather(x.data[r] + 1, x.data[r] + 30, 1, ncclFloat, x.comms[r], x.streams[r]);
    ncclBroadcast(x.data[r], x.data[r] + 40, 1, ncclFloat, 1, x.comms[r], x.streams[r]);
  }) == ncclSuccess);
  for (int r = 0; r < 3; ++r) {
    CHECK(x.host(r, 10, 2) == Floats{300, 303});
    CHECK(x.host(r, 20, 1) == Floats{200.0f + static_cast<float>(r)});
    CHECK(x.host(r, 30, 3) == Floats{1, 101, 201});
    CHECK(x.host(r, 40, 1) == Floats{100});
  }
}

TEST_CASE("ranks of a group exchange in both directions at once") {
  Ranks x(2);
  CHECK(x.together([&](int r) {
    ncclSend(x.data[r], 2, ncclFloat, 1 - r, x.comms[r], x.streams[r]);
    ncclRecv(x.data[r] + 8, 2, ncclFloat, 1 - r, x.comms[r], x.streams[r]);
  }) == ncclSuccess);
  CHECK(x.host(0, 8, 2) == Floats{100, 101});
  CHECK(x.host(1, 8, 2) == Floats{0, 1});
}

TEST_CASE("ranks of a color split from a communicator in the order of their keys") {
  Ranks x(3);
  std::vector<ncclComm_t> parts(3);
  CHECK(x.together([&](int r) {
    const int color = r == 1 ? NCCL_SPLIT_NOCOLOR : 5;
    CHECK(ncclCommSplit(x.comms[r], color, -r, &parts[r], nullptr) == ncclSuccess);
  }) == ncclSuccess);
  CHECK(parts[1] == nullptr);
  int rank = -1, size = 0;
  CHECK(ncclCommUserRank(parts[2], &rank) == ncclSuccess);
  CHECK(ncclCommCount(parts[2], &size) == ncclSuccess);
  CHECK(rank == 0);
  CHECK(size == 2);
  CHECK(x.together([&](int r) {
    if (r != 1) ncclBroadcast(x.data[r], x.data[r] + 40, 1, ncclFloat, 0, parts[r], x.streams[r]);
  }) == ncclSuccess);
  CHECK(x.host(0, 40, 1) == Floats{200});
  for (const int r : {0, 2}) CHECK(ncclCommDestroy(parts[r]) == ncclSuccess);
}

TEST_CASE("threads join a communicator and a graph may hold collectives") {
  alpa::emulation::restart({.devices = 2});
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  Floats results(2);
  const auto rank = [&](int r) {
    cudaSetDevice(r);
    ncclComm_t comm;
    CHECK(ncclCommInitRank(&comm, 2, id, r) == ncclSuccess);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    float *data, one = 1;
    cudaMalloc(&data, 4);
    cudaMemcpy(data, &one, 4, cudaMemcpyHostToDevice);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comm, stream) == ncclSuccess);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(cudaMemcpyAsync(&results[static_cast<std::size_t>(r)], data, 4, cudaMemcpyDeviceToHost,
                          stream) == cudaSuccess);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaFree(data);
    cudaStreamDestroy(stream);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  CHECK(results == Floats{8, 8});
}

TEST_CASE("ranks that disagree in order, count or type get an error that says who has what") {
  Ranks x(2);
  CHECK(x.together([&](int r) {
    if (r == 0)
      ncclAllReduce(x.data[0], x.data[0], 8, ncclFloat, ncclSum, x.comms[0], x.streams[0]);
    if (r == 1) ncclAllGather(x.data[1], x.data[1] + 8, 4, ncclFloat, x.comms[1], x.streams[1]);
  }) == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    CHECK(cudaStreamSynchronize(x.streams[r]) == cudaSuccess);
    ncclResult_t error = ncclSuccess;
    CHECK(ncclCommGetAsyncError(x.comms[r], &error) == ncclSuccess);
    CHECK(error == ncclInvalidUsage);
  }
  const std::string message = ncclGetLastError(x.comms[0]);
  CHECK(message.find("operation 0 of the communicator: rank ") == 0);
  CHECK(message.find("rank 0 has all_reduce of 8 f32 (sum)") != std::string::npos);
  CHECK(message.find("rank 1 has all_gather of 4 f32") != std::string::npos);
}

TEST_CASE("a rank whose peer never comes waits until its communicator is aborted") {
  Ranks x(2);
  ncclGroupStart();
  ncclAllReduce(x.data[0], x.data[0], 8, ncclFloat, ncclSum, x.comms[0], x.streams[0]);
  CHECK(ncclGroupEnd() == ncclSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(cudaStreamQuery(x.streams[0]) == cudaErrorNotReady);
  CHECK(ncclCommAbort(x.comms[1]) == ncclSuccess);
  ncclResult_t error = ncclSuccess;
  CHECK(ncclCommGetAsyncError(x.comms[0], &error) == ncclSuccess);
  CHECK(error == ncclRemoteError);
  CHECK(cudaStreamQuery(x.streams[0]) == cudaErrorNotReady);
  CHECK(ncclCommAbort(x.comms[0]) == ncclSuccess);
  cudaSetDevice(0);
  CHECK(cudaStreamSynchronize(x.streams[0]) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE(
    "what NCCL forbids is refused: two ranks on a device, one thread for two ranks without a "
    "group") {
  alpa::emulation::restart({.devices = 2});
  ncclComm_t comms[2];
  const int same[] = {1, 1};
  CHECK(ncclCommInitAll(comms, 2, same) == ncclInvalidUsage);
  ncclCommAbort(comms[0]);
  Ranks x(2);
  CHECK(ncclAllReduce(x.data[0], x.data[0], 8, ncclFloat, ncclSum, x.comms[0], x.streams[0]) ==
        ncclSuccess);
  CHECK(ncclAllReduce(x.data[1], x.data[1], 8, ncclFloat, ncclSum, x.comms[1], x.streams[1]) ==
        ncclInvalidUsage);
  for (const ncclComm_t comm : x.comms) ncclCommAbort(comm);
}

}  // namespace nccl_test
