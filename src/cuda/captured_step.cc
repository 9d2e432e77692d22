// src/cuda/captured_step.cc — captures work on several streams as one CUDA graph
#include "captured_step.h"

namespace alpa::cuda {

void end_capture(cudaStream_t origin) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(origin, &graph);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();  // the failure that ended the capture is under way as an exception
}

GraphExec finish_capture(cudaStream_t origin) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(origin, &graph), "cudaStreamEndCapture");
  const Handle<Opaque<cudaGraph_t>, cudaGraphDestroy> owner(graph);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority),
        "cudaGraphInstantiate");
  return GraphExec(exec);
}

}  // namespace alpa::cuda
