// src/cuda/memory_error.cc — allocates arenas, and explains failures
#include "memory_error.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "discovery.h"
#include "src/lower/device_program.h"
#include "status.h"

namespace alpa::cuda {
namespace {

constexpr std::size_t kNamed = 3;  ///< largest tensors in a message

/// "dense0.kernel f32[1024, 1024] 4194304 bytes, …" of the tensors with memory of their own.
std::string largest_tensors(const spmd::SpmdProgram& program, const lower::DeviceProgram& device) {
  std::vector<int> values;
  for (int v = 0; v < static_cast<int>(device.buffer_of_value.size()); ++v) {
    const int buffer = device.buffer_of_value[v];
    if (buffer >= 0 && device.buffers[buffer].alias_of < 0) values.push_back(v);
  }
  const auto type = [&](int v) -> const TensorType& {
    return device.buffers[device.buffer_of_value[v]].type;
  };
  std::stable_sort(values.begin(), values.end(),
                   [&](int a, int b) { return type(a).bytes() > type(b).bytes(); });
  values.resize(std::min(values.size(), kNamed));
  std::string text;
  for (int v : values)
    text += fmt::format("{}\"{}\" {} of {} bytes", text.empty() ? "" : ", ",
                        program.graph.producer(v).name, to_string(type(v)), type(v).bytes());
  return text;
}

}  // namespace

DeviceBlock allocate_arena(std::int64_t bytes, const spmd::SpmdProgram& program,
                           const lower::DeviceProgram& device, const Gpu& card) {
  void* data = nullptr;
  const cudaError_t status = bytes > 0 ? cudaMalloc(&data, bytes) : cudaSuccess;
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, so that the next call does not report it
    const CudaDevice gpu = alpa::cuda::device(card.ordinal);
    fail(
        "device {} (GPU {}, {}): no memory for an arena of {} bytes: {} of {} are free. "
        "It is the planned peak; the largest tensors are {}. "
        "Use more GPUs, a memory budget or more micro-batches, or free what others hold there",
        device.device, card.ordinal, gpu.name, bytes, gpu.free_bytes, gpu.memory_bytes,
        largest_tensors(program, device));
  }
  check(status, "cudaMalloc");
  return DeviceBlock(data);
}

}  // namespace alpa::cuda
