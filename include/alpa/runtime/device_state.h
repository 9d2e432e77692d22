#pragma once
/// Memory of the devices: what one training run owns.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace alpa {

/// Hands out a device's memory and counts it.
class DeviceAllocator {
 public:
  DeviceAllocator() = default;
  ~DeviceAllocator();
  DeviceAllocator(DeviceAllocator&& other) noexcept;
  DeviceAllocator& operator=(DeviceAllocator&&) = delete;

  /// `bytes` of memory aligned to kBufferAlignment; nullptr if there is none. It lives as long as the
  /// allocator.
  std::byte* allocate(std::int64_t bytes);
  std::int64_t bytes_in_use() const { return bytes_; }

 private:
  std::vector<std::byte*> blocks_;
  std::int64_t bytes_ = 0;
};

/// One arena per device. Plain data for the executor that made it.
class DeviceState {
 public:
  std::vector<DeviceAllocator> allocators;  ///< per device
  std::vector<std::byte*> arenas;           ///< per device
  std::uint64_t seed = 0;
  std::int64_t steps = 0;   ///< taken so far; random operators draw by it
  std::uint64_t owner = 0;  ///< number of the executor that made it
  std::string failure;      ///< why it can't be used any more; empty: it can
};

}  // namespace alpa
