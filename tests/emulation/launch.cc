// Kernels
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "block.h"
#include "cuda_runtime.h"
#include "stream.h"

namespace alpa::emulation {
namespace {

/// Dynamic shared memory that kernels were allowed beyond 48 KB, by kernel.
std::map<const void*, std::size_t>& allowances() {
  static auto* const allowances = new std::map<const void*, std::size_t>;
  return *allowances;
}

/// Whether the kernel was compiled for blocks of so many threads.
bool is_within(unsigned bound, const Grid& grid) {
  const unsigned threads = grid.threads.x * grid.threads.y * grid.threads.z;
  if (threads <= bound) return true;
  std::fprintf(stderr, "emulated CUDA: blocks of %u threads, but __launch_bounds__(%u)\n", threads,
               bound);
  return false;
}

unsigned largest_grid = 0;  ///< since it was asked for

bool is_valid(const Grid& grid, const void* kernel) {
  const dim3 &b = grid.blocks, &t = grid.threads;
  const auto allowance = allowances().find(kernel);
  const std::size_t shared = allowance == allowances().end() ? 48 * 1024 : allowance->second;
  return b.x > 0 && b.x < (1u << 31) && b.y > 0 && b.y < 65536 && b.z > 0 && b.z < 65536 &&
         t.x > 0 && t.x <= 1024 && t.y > 0 && t.y <= 1024 && t.z > 0 && t.z <= 64 &&
         t.x * t.y * t.z <= 1024 && grid.shared_bytes <= shared;
}

/// Kernels by device that were launched there, or asked about, outside of captures.
std::set<std::pair<int, const void*>>& loaded_kernels() {
  static auto* const loaded = new std::set<std::pair<int, const void*>>;
  return *loaded;
}

/// CUDA loads a kernel's code when it is first needed, and cannot while a stream is captured: such
/// a launch fails and invalidates the capture.
bool is_loadable(const void* kernel, const CUstream_st& stream) {
  const std::pair<int, const void*> key{stream.device, kernel};
  if (stream.capture && stream.capture->mode != cudaStreamCaptureModeRelaxed)
    return loaded_kernels().contains(key);
  loaded_kernels().insert(key);
  return true;
}

/// Whether this kernel is the one that is to fail. The grid runs as the machine now says.
bool is_to_fail(Grid& grid) {
  const Lock lock(world().mutex);
  grid.seed = world().machine.seed, grid.shared_fill = world().machine.shared_fill;
  return ++world().kernels == world().machine.fail_kernel;
}

void run(const Grid& grid) {
  const Seen seen;
  if (const char* const fault = run_grid(grid)) {
    std::fprintf(stderr, "emulated CUDA: %s\n", fault);
    throw cudaErrorLaunchFailure;
  }
}

}  // namespace

std::vector<KernelLaunch> captured_kernels() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().captured_kernels;
}

unsigned take_largest_grid() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return std::exchange(largest_grid, 0);
}

void forget_kernel(const void* kernel) {
  std::erase_if(loaded_kernels(), [kernel](const auto& loaded) { return loaded.second == kernel; });
}

cudaError_t launch(const void* kernel, unsigned bound, dim3 blocks, dim3 threads,
                   std::size_t shared_bytes, cudaStream_t stream, std::function<void()> body) {
  return call([&](Lock&) {
    Grid grid = {blocks, threads, shared_bytes, std::move(body)};
    if (!is_valid(grid, kernel) || !is_within(bound, grid)) return cudaErrorInvalidConfiguration;
    if (resolve(stream)->device != current_device()) return cudaErrorInvalidResourceHandle;
    if (!is_loadable(kernel, *resolve(stream))) {
      resolve(stream)->capture->invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    if (resolve(stream)->capture)
      world().captured_kernels.push_back({kernel, blocks.x * blocks.y * blocks.z,
                                          threads.x * threads.y * threads.z, shared_bytes});
    largest_grid = std::max(largest_grid, blocks.x * blocks.y * blocks.z);
    return enqueue(
        resolve(stream),
        [grid](std::shared_ptr<void>&) mutable {
          if (is_to_fail(grid)) throw cudaErrorIllegalAddress;
          run(grid);
          return true;
        },
        NodeKind::kernel);
  });
}

}  // namespace alpa::emulation

using namespace alpa::emulation;

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return call([&](Lock&) {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
    loaded_kernels().insert({current_device(), function});
    *attributes = {0, 0, 0, static_cast<int>(alpa_emulation::bound_of(function)), 32, 90, 90};
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared_bytes) {
  return call([&](Lock&) {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    *blocks = threads <= 1024 && shared_bytes <= kSharedBytes ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return call([&](Lock&) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<std::size_t>(value) > kMostSharedBytes)
      return cudaErrorInvalidValue;
    allowances()[function] = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}
}
