#pragma once
/// Checks the writes of kernels to a device's arena, in builds whose programs have guard bytes
/// (debug and sanitizers). Guard bytes after the buffers that an instruction writes must not
/// change; under AddressSanitizer, memory without a live buffer must not be accessed. Thread rule:
/// belongs to the device's thread; memory of started collectives is live until their wait.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::runtime {

/// Tells AddressSanitizer that memory may, or may not, be used; does nothing in other builds.
void mark_alive(const std::byte* memory, std::int64_t bytes);
void mark_dead(const std::byte* memory, std::int64_t bytes);

class ArenaGuard {
 public:
  explicit ArenaGuard(const lower::DeviceProgram& device);

  /// Call it before a step: only state and accumulators are alive.
  void begin_step(std::byte* arena) const;
  /// Around the instruction at `position` (as live_ranges counts), run for a micro-batch. `after`
  /// throws Bug if the instruction wrote past the end of one of its buffers.
  void before(std::byte* arena, int position, int micro_batch = 0) const;
  void after(std::byte* arena, int position, int micro_batch = 0) const;

 private:
  struct Stretch {
    std::int64_t offset = 0, bytes = 0;
    int buffer = -1;
    int slots = 1;
    std::int64_t slot_bytes = 0;

    std::int64_t offset_of(int micro_batch) const {
      return offset + micro_batch % slots * slot_bytes;
    }
  };
  /// The changes around an instruction: memory whose life begins before it or ends after it, guard
  /// bytes that are written before it and checked after it.
  struct Point {
    std::vector<Stretch> born, dying, written, checked;
  };
  Stretch memory_at(int buffer) const;
  Stretch all_slots_of(int buffer) const;
  std::vector<Stretch> ends_of(const lower::Instruction& instruction) const;
  void mark_births(const std::vector<bool>& memories);
  void watch_ends(const std::vector<lower::Instruction>& list, int first);

  const lower::DeviceProgram& device_;
  std::vector<Stretch> always_;  ///< state, accumulators, what outlives runs of other lists
  std::vector<Point> points_;    ///< per position; empty without guard bytes
};

}  // namespace alpa::runtime
