#pragma once
/// Arenas in the host's memory.
#include "alpa/runtime/device_state.h"

namespace alpa {

class HostArenas : public DeviceMemory {
 public:
  ~HostArenas() override;

  /// An arena of `bytes` for the next device, aligned as the CPU's memory rules say. Returns false if there
  /// is none.
  bool add(std::int64_t bytes);
  std::int64_t bytes_in_use(int rank) const override { return bytes_[rank]; }

 private:
  std::vector<std::byte*> blocks_;
  std::vector<std::int64_t> bytes_;
};

}  // namespace alpa
