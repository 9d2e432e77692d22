#pragma once
/// The device memory of one training run.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/runtime/background.h"

namespace alpa::runtime {

/// The arenas of all devices of this process, one block per device, freed on destruction.
/// Made by `Devices::allocate`.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Bytes that a device actually uses. CPU: one past the highest byte of its arena ever written,
  /// with the whole scratch of kernels; rounded to multiples of 8 within the planned bytes. CUDA:
  /// bytes from its allocator.
  virtual std::int64_t bytes_in_use(int index) const = 0;

  std::vector<std::byte*> arenas;  ///< per device: where its arena begins, in the device's memory

 protected:
  DeviceMemory() = default;
};

/// Plain data for the executor that made it, whose lock guards it.
class DeviceState {
 public:
  std::shared_ptr<DeviceMemory> memory;  ///< also of steps whose devices were lost
  std::uint64_t seed = 0;
  std::int64_t arena_bytes = 0;  ///< of each device, at least
  /// Started so far, of each step that works on it; random operators use it as counter.
  std::vector<std::int64_t> steps;
  /// Metrics of the last run of the first of them, once that is over; null: none has run.
  std::shared_ptr<const std::optional<std::map<std::string, double>>> metrics = {};
  std::vector<std::weak_ptr<Background>> background = {};  ///< what goes on beside its steps
  std::uint64_t owner = 0;                                 ///< number of the executor that made it
  /// Reason why the state is unusable; empty: usable. Shared with steps that still run on it.
  std::shared_ptr<std::string> failure = std::make_shared<std::string>();
};

}  // namespace alpa::runtime
