// src/runtime/lost_devices.cc — keeps what lost threads may still use
#include "lost_devices.h"

#include <mutex>
#include <utility>
#include <vector>

namespace alpa::runtime {

void keep_forever(std::unique_ptr<Devices> devices, std::shared_ptr<DeviceMemory> memory) {
  using Lost = std::pair<std::unique_ptr<Devices>, std::shared_ptr<DeviceMemory>>;
  static std::mutex guard;
  static std::vector<Lost>& all = *new std::vector<Lost>;  // never destroyed, not even at exit
  const std::lock_guard lock(guard);
  all.emplace_back(std::move(devices), std::move(memory));
}

}  // namespace alpa::runtime
