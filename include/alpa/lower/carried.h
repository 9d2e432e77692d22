#pragma once
/// What the lists of a device hand to each other: memory that one run writes and a later run reads.
#include <vector>

#include "alpa/lower/device_program.h"

namespace alpa {

/// Of one memory, see `memory_of`.
struct Carried {
  std::vector<int> lists;  ///< that touch it, ascending; empty if no list finds there what another one left
  int slots = 1;           ///< copies needed, so that no run overwrites what a later one reads
  /// Lists that run while it holds something that a later run reads: it is in use all the time.
  std::vector<int> beside;
};

/// Per buffer; only those that own memory have entries that say something. State, accumulators and buffers
/// that every list fills anew are not carried.
std::vector<Carried> carried(const DeviceProgram& device);

/// Whether a run sends what lies in the memory, per buffer.
std::vector<bool> sent(const DeviceProgram& device);

}  // namespace alpa
