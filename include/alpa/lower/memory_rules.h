#pragma once
/// What a backend asks of the memory of its devices. Known without the backend's library, so that a plan
/// can be made anywhere.
#include <string_view>

#include "alpa/lower/device_program.h"
#include "alpa/tensor/kernel.h"

namespace alpa {

struct MemoryRules {
  std::int64_t alignment = 64;  ///< buffers start at multiples of this
  /// Scratch of a compute instruction's kernel, in bytes.
  std::int64_t (*scratch_bytes)(const Node& node, const KernelCall& call) = nullptr;
  /// Scratch of a collective; null: none is ever needed.
  std::int64_t (*collective_scratch_bytes)(const CollectiveCall& call, const KernelCall& tensors) = nullptr;
  /// Scratch of a send or receive, by its box and the local tensor that it is in; null: none is ever
  /// needed.
  std::int64_t (*message_scratch_bytes)(const Message& message, const KernelTensor& tensor) = nullptr;
  int threads = 1;  ///< that a device's kernels run on; some need scratch for each
  /// Bytes after every buffer that nobody may write; checked after every instruction. 0 in release builds.
  std::int64_t guard_bytes = 0;
  /// The inputs of a step wait on the device, `kStagedSteps` of them, in a buffer that is always live.
  bool staged_inputs = false;
};

/// Scratch of a collective through NCCL: room for the shards of tensors that are cut along another
/// dimension than the first.
std::int64_t nccl_scratch_bytes(const CollectiveCall& call, const KernelCall& tensors);

/// Scratch of a message through NCCL: room for a box that is not dense.
std::int64_t message_scratch_bytes(const Message& message, const KernelTensor& tensor);

/// The rules of backend "cpu" or "cuda" for devices of so many threads. Throws Error naming the backends
/// for any other.
MemoryRules memory_rules(std::string_view backend, int threads_per_device = 1);

}  // namespace alpa
