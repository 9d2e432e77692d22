#pragma once
/// Static memory: every buffer of a device program gets an offset in one arena before anything runs.
#include <string_view>

#include "alpa/pipeline/device_program.h"
#include "alpa/tensor/kernel.h"

namespace alpa {

/// What a backend asks of memory planning.
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

/// Offsets by live ranges over all lists, by `rules`. Results lie in the memory of an
/// operand that dies there where the operator allows it; kernels' scratch gets buffers of its own, live
/// during the instruction. Of several packings the smallest is kept. Sets alias_of, arena_offset,
/// Instruction::workspace and arena_bytes, which is the end of the last buffer, to the byte.
DeviceProgram plan_memory(const DeviceProgram& device, const SpmdProgram& program,
                          const MemoryRules& rules = memory_rules("cpu"));

/// Throws Bug if two buffers that live at once overlap, or one leaves the arena or is not aligned.
void verify_memory(const DeviceProgram& device, const SpmdProgram& program,
                   const MemoryRules& rules = memory_rules("cpu"));

/// Most bytes that live at any one position, each buffer rounded up to the alignment: no packing takes less
/// (but for the last rounding).
std::int64_t live_bytes_bound(const DeviceProgram& device, const MemoryRules& rules = memory_rules("cpu"));

/// emit, plan_memory and verify_memory for one device: what an executor of the same `overlap` runs.
DeviceProgram lower(const SpmdProgram& program, int device, bool overlap,
                    const MemoryRules& rules = memory_rules("cpu"), const PipelineSchedule& schedule = {});

/// The same for the first device of every class (pipeline/rank_classes.h), from which `programs_of_all`
/// makes the others.
std::vector<DeviceProgram> lower_classes(const SpmdProgram& program, bool overlap,
                                         const MemoryRules& rules = memory_rules("cpu"),
                                         const PipelineSchedule& schedule = {});

}  // namespace alpa
