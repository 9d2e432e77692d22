#pragma once
/// Arenas in host memory.
#include "src/base/host_memory.h"
#include "src/runtime/device_state.h"

namespace alpa::runtime {

class HostArenas : public DeviceMemory {
 public:
  ~HostArenas() override;

  /// Bytes that `add` allocates for an arena of `bytes`.
  static std::int64_t allocated_bytes(std::int64_t bytes);
  /// An arena for the next device, at a multiple of 64, of the bytes that its program plans, or of
  /// `least` if these are more. Returns false if there is none.
  bool add(std::int64_t planned, std::int64_t least = 0);
  std::int64_t bytes_in_use(int rank) const override;

 private:
  std::vector<std::int64_t> planned_, allocated_;
};

/// Throws Error if the arenas of so many devices, `arena_bytes` in all, and `other_bytes`
/// beside them are more than what is available: Linux would hand the memory out, and kill
/// the process when it is used.
void require_available(std::int64_t arena_bytes, std::int64_t other_bytes, int devices,
                       const HostMemory& memory);

}  // namespace alpa::runtime
