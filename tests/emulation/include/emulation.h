#pragma once
/// The emulated machine, for tests that want another one than the environment describes.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"

namespace alpa::emulation {

/// Some of cuBLASLt's products; -1: any. As text "type/epilogue/algorithm", with * for any.
struct ProductsOf {
  int type = -1;       ///< cudaDataType_t of the operands
  int epilogue = -1;   ///< cublasLtEpilogue_t; 0: every one but CUBLASLT_EPILOGUE_DEFAULT
  int algorithm = -1;  ///< CUBLASLT_ALGO_CONFIG_ID: 21 (aligned matrices only), 6 or 31
  int batched = -1;    ///< 0: of one matrix each, 1: of several; not in the text
};

/// ALPA_EMULATED_SEED of the environment, or 1.
std::uint64_t seed_of_environment();

/// The environment's ALPA_EMULATED_DEVICES, _MEMORY, _FAULT, _SEED, _DNN (version), _REFUSED,
/// _FAILING and _SLOW give the values at first; the last three are texts of `ProductsOf` with
/// blanks between them.
struct Machine {
  int devices = 1;
  std::size_t memory_bytes = std::size_t{8} << 30;  ///< of each device
  /// the n-th kernel from now on ends in cudaErrorIllegalAddress
  std::int64_t fail_kernel = 0;
  /// of the order in which nodes of graphs, blocks and warps run
  std::uint64_t seed = seed_of_environment();
  unsigned char shared_fill = 0xa5;      ///< of shared memory when a block begins
  std::vector<ProductsOf> refused = {};  ///< cuBLASLt proposes no algorithm for them
  std::vector<ProductsOf> invalid = {};  ///< CUBLAS_STATUS_INVALID_VALUE when asked for algorithms
  /// proposed, but CUBLAS_STATUS_EXECUTION_FAILED when they are to run
  std::vector<ProductsOf> failing = {};
  std::vector<ProductsOf> slow = {};  ///< take an hour more by the clock of events
  std::size_t dnn_version = 91900;    ///< of cuDNN; its first digit is read once
  /// cuDNN's engines by number, as above: no plan of them, no run, an hour more
  std::vector<int> refused_engines = {}, failing_engines = {}, slow_engines = {};
};

/// Another machine, without errors, from now on. The old one's memory,
/// streams and events must be gone.
void restart(const Machine& machine);

/// The n-th kernel from now on ends in cudaErrorIllegalAddress.
void fail_kernel(std::int64_t n);

/// From now on no kernel, graph or call of a library begins to run on the device, or all do again.
void hold(int device, bool held);

/// The most blocks of a kernel that was queued or captured since the last call of this.
unsigned take_largest_grid();

/// cuDNN's engine that was queued last; -1: none since the machine started.
int last_engine();

/// What a graph consists of. Calls of cuBLASLt, cuDNN and NCCL count as one kernel each;
/// on a card they may be more.
struct GraphNodes {
  int kernels = 0;
  int copies = 0;  ///< cudaMemcpyAsync and its kind
  int clears = 0;  ///< cudaMemsetAsync
  int others = 0;  ///< host functions, graphs in graphs
  /// all of them by the priority of the stream that they were captured from; empty where the graph
  /// runs with that of the stream that it is launched on
  std::map<int, int> by_priority = {};
};

/// Nodes of the graph that was instantiated last; an executor does that for
/// every list that it captures.
GraphNodes last_graph();
/// What was asked for so far.
struct Totals {
  int graphs = 0;          ///< instantiated
  GraphNodes captured;     ///< nodes of all of them
  int graph_launches = 0;  ///< launches of any of them
  int kernels = 0;         ///< queued one by one
  int messages = 0;        ///< groups of NCCL's sends and receives that began to run on a card
};
Totals totals();

/// The most communicators of NCCL that a device was a member of at once, since the machine started.
int most_communicators(int device);

/// Kernels that were queued one by one in ranges of NVTX since the machine started: by the names of
/// all ranges around, the outermost first.
std::map<std::vector<std::string>, int> kernels_by_ranges();
/// Names of streams and threads that NVTX was told since then.
std::set<std::string> given_names();

struct KernelLaunch {
  const void* kernel;
  unsigned blocks, threads;  ///< of the grid, of a block
  std::size_t shared_bytes;  ///< dynamic
};
/// Kernels that were captured, since the machine started; calls of libraries are none.
std::vector<KernelLaunch> captured_kernels();

/// Queues a kernel of the library, compiled for blocks of 64 threads: two words of each thread,
/// what it finds in its block's static and dynamic shared memory. It writes others there.
cudaError_t probe_shared(unsigned* found, unsigned blocks, unsigned threads, cudaStream_t stream);

/// Calls of cudaMalloc on a device so far.
std::size_t allocations(int device);

}  // namespace alpa::emulation
