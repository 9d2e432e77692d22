// kernels/cuda/clear.cu — writes zeros into many memory ranges in one launch
#include "kernels/cuda/clear.h"

#include <algorithm>

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = kThreads * 16 * 8;  ///< bytes that a block clears at a time

struct Table {
  ClearedBytes stretches[kMaxCleared];
  std::int32_t first[kMaxCleared + 1];  ///< chunk of each stretch; behind the last: of all
  int count = 0;
};

/// The stretch that a chunk belongs to.
__device__ int stretch_of(const Table& table, int chunk) {
  int low = 0, high = table.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.first[middle] <= chunk)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

__global__ void __launch_bounds__(kThreads) clear(const __grid_constant__ Table table) {
  for (int chunk = static_cast<int>(blockIdx.x); chunk < table.first[table.count];
       chunk += static_cast<int>(gridDim.x)) {
    const int s = stretch_of(table, chunk);
    const std::int64_t begin = (chunk - table.first[s]) * kChunk,
                       left = table.stretches[s].bytes - begin,
                       bytes = left < kChunk ? left : kChunk;
    unsigned char* const data = static_cast<unsigned char*>(table.stretches[s].data) + begin;
    for (std::int64_t at = threadIdx.x * 16; at + 16 <= bytes; at += kThreads * 16)
      *reinterpret_cast<uint4*>(data + at) = uint4{0, 0, 0, 0};
    for (std::int64_t at = bytes / 16 * 16 + threadIdx.x; at < bytes; at += kThreads) data[at] = 0;
  }
}

}  // namespace

Status run_clear(const ClearedBytes* stretches, int count, Stream stream) {
  for (int done = 0; done < count; done += kMaxCleared) {
    Table table;
    table.count = std::min(kMaxCleared, count - done);
    std::copy_n(stretches + done, table.count, table.stretches);
    table.first[0] = 0;
    for (int s = 0; s < table.count; ++s)
      table.first[s + 1] =
          table.first[s] + static_cast<std::int32_t>(divide_up(table.stretches[s].bytes, kChunk));
    const std::int64_t blocks = blocks_for(table.first[table.count], 1);
    if (const Status status = launch(clear, blocks, kThreads, 0, stream, table)) return status;
  }
  return 0;
}

}  // namespace alpa::cuda
