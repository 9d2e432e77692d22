#pragma once
/// Work on several streams as one CUDA graph.
#include "handles.h"
#include "status.h"

namespace alpa::cuda {

/// The graph of what `work` queues on `origin`, and on streams that it forks from there and joins
/// again. Nodes keep the priorities of their streams. Nothing runs. If `work` throws, nothing is
/// left of the capture.
template <class Work>
GraphExec capture(cudaStream_t origin, Work&& work);

/// Ends a capture that failed.
void end_capture(cudaStream_t origin) noexcept;
/// Ends a capture and makes its graph ready to be launched.
GraphExec finish_capture(cudaStream_t origin);

template <class Work>
GraphExec capture(cudaStream_t origin, Work&& work) {
  check(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    work();
  } catch (...) {
    end_capture(origin);
    throw;
  }
  return finish_capture(origin);
}

}  // namespace alpa::cuda
