#pragma once
/// Memory that one run of a device's lists writes and a later run reads.
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::lower {

/// Use of the memory of one buffer (`memory_of`) by several lists.
struct CarriedMemory {
  /// that use it, ascending; empty if no list reads what another one wrote
  std::vector<int> lists;
  int slots = 1;  ///< copies needed so that no run overwrites what a later run reads
  /// Other lists that run while a later run still needs its content; it is
  /// then in use all the time.
  std::vector<int> beside;
  /// Made before the micro-batches, and read by their runs: it is in use for the whole step.
  bool lasting = false;
};

/// Per buffer; entries of buffers that do not own memory are empty. State, accumulators and buffers
/// that every list fills anew are not carried.
std::vector<CarriedMemory> carried_memory(const DeviceProgram& device);

/// Per buffer, whether a run sends the content of its memory.
std::vector<bool> sent(const DeviceProgram& device);

}  // namespace alpa::lower
