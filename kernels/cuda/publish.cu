// kernels/cuda/publish.cu — copies many small tensors in one launch
#include "kernels/cuda/publish.h"

#include <algorithm>

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

struct Table {
  PublishedElement elements[kMaxPublished];
  int count = 0;
};

template <class T>
__device__ void copy_element(const PublishedElement& e) {
  *static_cast<T*>(e.to) = *static_cast<const T*>(e.from);
}

__global__ void __launch_bounds__(kMaxPublished) publish(const __grid_constant__ Table table) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= table.count) return;
  const PublishedElement& e = table.elements[i];
  switch (e.bytes) {
    case 1: return copy_element<std::uint8_t>(e);
    case 2: return copy_element<std::uint16_t>(e);
    case 4: return copy_element<std::uint32_t>(e);
    default: return copy_element<std::uint64_t>(e);
  }
}

}  // namespace

Status run_publish(const PublishedElement* elements, int count, Stream stream) {
  for (int first = 0; first < count; first += kMaxPublished) {
    Table table;
    table.count = std::min(kMaxPublished, count - first);
    std::copy_n(elements + first, table.count, table.elements);
    if (const Status status = launch(publish, 1, kMaxPublished, 0, stream, table)) return status;
  }
  return 0;
}

}  // namespace alpa::cuda
