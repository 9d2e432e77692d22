#pragma once
/// A backend's requirements for memory. Known without the backend's library, so that
/// planning works on any machine.
#include <string_view>

#include "src/lower/device_program.h"
#include "src/tensor/kernel.h"

namespace alpa::lower {

struct MemoryRules {
  std::int64_t alignment = 64;  ///< buffers start at multiples of this
  /// Scratch of a compute instruction's kernel, in bytes.
  std::int64_t (*scratch_bytes)(const Node& node, const KernelCall& call) = nullptr;
  /// Scratch of a collective; null: never any.
  std::int64_t (*collective_scratch_bytes)(const CollectiveCall& call,
                                           const KernelCall& tensors) = nullptr;
  /// Scratch of a send or receive, by its box and the local tensor containing it; null: never any.
  std::int64_t (*message_scratch_bytes)(const Message& message,
                                        const KernelTensor& tensor) = nullptr;
  int threads = 1;  ///< of a device; some kernels need scratch for each
  /// Guard bytes after every buffer, checked after every instruction. 0 in release builds.
  std::int64_t guard_bytes = 0;
  /// Inputs of up to `kStagedSteps` steps are uploaded ahead, into a buffer that is always live.
  bool staged_inputs = false;
  /// Tensors that kernels want side by side (`wanted_side_by_side`) are placed so.
  bool side_by_side = false;
  /// Collectives under way are awaited before what they read adds to the program's peak.
  bool awaits_within_peak = false;
};

/// True if NCCL lacks the call's reduction: every rank then gathers all partial results and
/// combines them itself.
bool nccl_gathers(const CollectiveCall& call);

/// Scratch of a collective through NCCL: the shards of tensors split along a
/// dimension other than the first, or partial results gathered.
std::int64_t nccl_scratch_bytes(const CollectiveCall& call, const KernelCall& tensors);

/// Scratch of a message through NCCL: a box that is not contiguous.
std::int64_t message_scratch_bytes(const Message& message, const KernelTensor& tensor);

/// The rules of a backend (backend.h) for devices with `threads_per_device` threads. Throws Error
/// naming the backends if there is none of this name.
MemoryRules memory_rules(std::string_view backend, int threads_per_device = 1);

}  // namespace alpa::lower
