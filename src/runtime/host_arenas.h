#pragma once
/// Arenas in the host's memory.
#include "alpa/runtime/device_state.h"

namespace alpa {

class HostArenas : public DeviceMemory {
 public:
  ~HostArenas() override;

  /// An arena of `bytes` for the next device, at a multiple of 64. Returns false if there is none.
  bool add(std::int64_t bytes);
  std::int64_t bytes_in_use(int rank) const override;

 private:
  std::vector<std::int64_t> bytes_;
};

}  // namespace alpa
