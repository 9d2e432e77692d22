#pragma once
/// The planning half of a backend: which passes and memory rules programs for it have. Needs no
/// devices; runtime/backend.h makes them.
#include <cstdint>
#include <string_view>

#include "alpa/lower/executor_options.h"
#include "src/lower/memory_rules.h"
#include "src/tensor/kernel.h"

namespace alpa {
struct OpDef;
}  // namespace alpa

namespace alpa::lower {

struct Backend {
  std::string_view name;
  /// True if one kernel can compute this einsum_epilogue node (fuse_epilogues); null: never.
  bool (*fuses_epilogue)(const KernelCall& node) = nullptr;
  /// True if one kernel can compute this einsum_group node (group_einsums); null: never.
  bool (*groups_einsums)(const KernelCall& node) = nullptr;
  /// True if every node is a launch that costs time: updates and norms are then merged into joint
  /// nodes.
  bool launches = false;
  /// Devices are threads of this process and share its cores: they may have several each, and
  /// overlapping pays only while there are more cores than devices.
  bool on_cores = false;
  /// ExecutorOptions::bucket_bytes where none are given: what a link needs to reach its rate.
  std::int64_t bucket_bytes = 0;
  /// Kernels can add in one order (KernelCall::sums).
  bool fixes_sums = false;
  bool (*has_kernel)(const OpDef& op) = nullptr;
  MemoryRules memory = {};
};

/// The backend of this name. Throws Error naming the backends if there is none.
const Backend& find_backend(std::string_view name);

/// Threads of each of `num_devices` devices: `options.threads_per_device`, or its default if 0.
/// Throws Error for a negative number.
int threads_per_device(const Backend& backend, const ExecutorOptions& options, int num_devices);

/// True if `num_devices` devices of this process overlap collectives under `options.overlap`.
bool overlaps(const Backend& backend, const ExecutorOptions& options, int num_devices);

}  // namespace alpa::lower
