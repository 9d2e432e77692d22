#pragma once
/// Splits the lists of a mesh's devices into segments for capture. The work of a graph is joined at
/// its end, so messages between meshes, which wait for their peers, are queued between graphs.
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::cuda {

/// A piece of one list, of all devices of a mesh: positions in each one's list.
struct Segment {
  /// per device: sends, receives and their waits, queued first
  std::vector<std::vector<int>> messages;
  std::vector<std::vector<int>> work;  ///< per device: what a graph can hold
};

/// True for sends, receives and waits for them.
bool is_message(const lower::DeviceProgram& device, int list,
                const lower::Instruction& instruction);

/// List `list` of those devices of a mesh that are in this process: one segment at least.
/// Every device's messages keep their order. If `few`, segments are joined where nothing can
/// wait for itself by that: waits, and receives into memory that is free by then, are queued
/// ahead of the work before them, sends behind the work after them. Throws Bug if the lists do
/// not meet in their collectives.
std::vector<Segment> segments_of(const std::vector<const lower::DeviceProgram*>& devices, int list,
                                 bool few);

}  // namespace alpa::cuda
