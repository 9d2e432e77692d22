#pragma once
/// A backend: memory rules, passes and devices. All code that depends on the backend uses this
/// value.
#include <memory>
#include <string_view>
#include <vector>

#include "alpa/runtime/devices.h"
#include "alpa/runtime/executor.h"
#include "alpa/lower/memory_rules.h"

namespace alpa {

struct Backend {
  std::string_view name;
  /// One kernel can compute such an einsum_epilogue node; null: none is made. (fuse_epilogues)
  bool (*fuses_epilogue)(const KernelCall& node) = nullptr;
  /// Every node is a launch, which has a price: updates and norms become joint nodes.
  bool launches = false;
  /// Devices are threads of this process and share its cores: they may have several each, and overlapping
  /// pays only while there are more cores than devices.
  bool on_cores = false;
  bool (*has_kernel)(const OpDef& op) = nullptr;
  /// Throws Error if there are not so many devices here: why, and how to mend it.
  void (*require_devices)(int devices) = nullptr;
  /// Throws Error like `require_devices`, and if a device can't be made.
  std::unique_ptr<Devices> (*make_devices)(DevicesRequest request) = nullptr;
};

/// Throws Error naming the backends if there is none of this name.
const Backend& find_backend(std::string_view name);

/// Threads of each of so many devices of this process: `options.threads_per_device`, or what 0 stands for.
/// Throws Error for a negative number.
int threads_per_device(const Backend& backend, const ExecutorOptions& options, int num_devices);

/// What `options.overlap` means for so many devices of this process.
bool overlaps(const Backend& backend, const ExecutorOptions& options, int num_devices);

}  // namespace alpa
