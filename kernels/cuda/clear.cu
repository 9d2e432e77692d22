// kernels/cuda/clear.cu — writes zeros into many memory ranges in one launch
#include "kernels/cuda/clear.h"

#include "kernels/cuda/tensor_table.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;

template <int capacity>
__global__ void __launch_bounds__(kThreads)
    clear(const __grid_constant__ Table<ClearedBytes, capacity> table) {
  for (std::int64_t chunk = blockIdx.x; chunk < table.chunks; chunk += gridDim.x) {
    const int s = tensor_of(table, chunk);
    const std::int64_t begin = (chunk - table.first_chunk[s]) * kClearedChunk,
                       left = table.tensors[s].bytes - begin,
                       bytes = left < kClearedChunk ? left : kClearedChunk;
    unsigned char* const data = static_cast<unsigned char*>(table.tensors[s].data) + begin;
    for (std::int64_t at = threadIdx.x * 16; at + 16 <= bytes; at += kThreads * 16)
      *reinterpret_cast<uint4*>(data + at) = uint4{0, 0, 0, 0};
    for (std::int64_t at = bytes / 16 * 16 + threadIdx.x; at < bytes; at += kThreads) data[at] = 0;
  }
}

}  // namespace

Status run_clear(const ClearedBytes* stretches, int count, Stream stream) {
  return for_tables(
      stretches, count, [](const ClearedBytes&) { return true; },
      [&](const auto& table) {
        return launch_table(clear<capacity_of<decltype(table)>>, kThreads, stream, table);
      });
}

}  // namespace alpa::cuda
