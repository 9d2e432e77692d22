#pragma once
/// Copies small tensors in one launch; used to write a step's metrics to host memory.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// Elements that a launch takes; more are several launches.
inline constexpr int kMaxPublished = 128;

/// One element of 1, 2, 4 or 8 bytes. `to` may be mapped host memory.
struct PublishedElement {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;
};

/// *to = *from for each, a whole element at a time. `elements`: `count` of them, host memory,
/// read before the call returns.
Status run_publish(const PublishedElement* elements, int count, Stream stream);

}  // namespace alpa::cuda
