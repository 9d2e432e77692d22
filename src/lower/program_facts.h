#pragma once
/// Facts that the programs of all devices share, computed once.
#include <vector>

#include "src/lower/lists.h"
#include "src/lower/messages.h"

namespace alpa::lower {

/// Facts of a program that runs by a schedule, which the emission of every device reads. Throws as
/// `lists_of` does. Refers to `program`, which outlives it.
struct ProgramFacts {
  ProgramFacts(const spmd::SpmdProgram& program, bool overlap,
               const pipeline::PipelineSchedule& schedule);

  const spmd::SpmdProgram& program;
  Lists lists;
  Messages messages;
  SendSlots slots;
  /// Per node: a collective with work behind it before its results are read, if collectives may
  /// overlap. Decided on the graph, so that all devices of a mesh start the same ones, whatever is
  /// empty or free on one of them.
  std::vector<bool> starts;
  bool awaits_within_peak = false;  ///< as in MemoryRules
};

/// `emit` (src/lower/device_program.h) for a device of the program.
DeviceProgram emit(const ProgramFacts& facts, int device);

}  // namespace alpa::lower
