// A kernel of the library, between its others, for the test of shared memory.
#include "block.h"
#include "cuda_runtime.h"
#include "emulation.h"

namespace alpa::cuda {
extern thread_local uint4 alpa_dynamic_shared[];
}  // namespace alpa::cuda

namespace alpa::emulation {
namespace {

constexpr int kThreads = 64;

/// What a block finds in its static and in its dynamic shared memory, which it then writes over.
void __global__ __launch_bounds__(kThreads) probe(unsigned* found) {
  __shared__ unsigned words[kThreads];
  auto* const dynamic = reinterpret_cast<unsigned*>(cuda::alpa_dynamic_shared);
  unsigned* const own = found + (blockIdx.x * kThreads + threadIdx.x) * 2;
  own[0] = words[threadIdx.x], own[1] = dynamic[threadIdx.x];
  words[threadIdx.x] = dynamic[threadIdx.x] = 7;
}

}  // namespace

cudaError_t probe_shared(unsigned* found, unsigned blocks, unsigned threads, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks, config.blockDim = threads, config.stream = stream;
  config.dynamicSmemBytes = kThreads * sizeof(unsigned);
  return cudaLaunchKernelEx(&config, probe, found);
}

}  // namespace alpa::emulation
