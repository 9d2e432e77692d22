#pragma once
/// Names that tools such as Nsight Systems show, by NVTX: ranges of what the host queues, streams,
/// threads. NVTX looks for a tool at its first call. Without one, any later call is a load and a
/// branch. A toolkit without NVTX's headers builds a backend that names nothing.
#include <unistd.h>

#include <optional>
#include <string>

#include "handles.h"

#if __has_include(<nvtx3/nvToolsExtCudaRt.h>)
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#else
inline int nvtxRangePushA(const char*) { return 0; }
inline int nvtxRangePop() { return 0; }
inline void nvtxNameOsThreadA(unsigned, const char*) {}
inline void nvtxNameCudaStreamA(cudaStream_t, const char*) {}
#endif

namespace alpa::cuda {

/// NVTX range: covers the calls of its thread while it lives. Ranges of a thread are nested.
class Range {
 public:
  explicit Range(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

/// The range of the layer that its thread is at.
class LayerRange {
 public:
  /// -1: none.
  void enter(int layer) {
    if (layer == layer_) return;
    range_.reset();
    layer_ = layer;
    if (layer >= 0) range_.emplace("layer " + std::to_string(layer));
  }

 private:
  int layer_ = -1;
  std::optional<Range> range_;
};

inline void name_stream(cudaStream_t stream, const std::string& name) {
  nvtxNameCudaStreamA(stream, name.c_str());
}

inline void name_this_thread(const std::string& name) {
  nvtxNameOsThreadA(static_cast<unsigned>(gettid()), name.c_str());
}

}  // namespace alpa::cuda
