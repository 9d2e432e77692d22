#pragma once
/// The instruction lists of devices: which nodes each of them has, and in which order they run.
#include <array>
#include <string>
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::lower {

/// Lists shared by the devices of one group of meshes (`spmd::mesh_groups`).
struct GroupLists {
  std::vector<int> meshes = {};
  std::vector<std::string> names = {};
  std::vector<ListRun> schedule = {};
  /// Nodes of the program, in order: those on the meshes, and the transfers to and from them.
  std::vector<int> nodes = {};
  /// The first list runs once, before the micro-batches (`spmd::once_before`).
  bool begins = false;

  int apply() const { return static_cast<int>(names.size()) - 1; }
};

/// The lists of all devices of a program. Numbers of lists count those of one device.
struct Lists {
  std::vector<GroupLists> groups;
  std::vector<int> group_of_mesh;
  /// Per mesh, the lists of its forward, backward and apply nodes.
  std::vector<std::array<int, 3>> of_mesh;
  std::vector<int> of_node;  ///< per node: the list that makes its results
  std::vector<bool> once;    ///< per node: `spmd::once_before`

  int of(Region region, int mesh) const { return of_mesh[mesh][static_cast<int>(region)]; }
  /// The list of the messages of a transfer, node `n` of region `region`, on one of its meshes.
  int of_messages(int n, Region region, int mesh) const { return once[n] ? 0 : of(region, mesh); }
};

/// Without a schedule: "accumulate", of forward and backward, and "apply"; with one micro-batch
/// only "apply". With a schedule: "forward", "backward", "weights" if it splits backward, and
/// "apply"; if several meshes have the device, "forward_0", "forward_1", … in their order,
/// "backward_…" and "weights_…" in reverse. List "weights" has the backward nodes on which no
/// message depends. List "begin" is the first one of devices that run something before the
/// micro-batches. Without backward runs there is no such list: throws Error if the program has
/// backward nodes. Throws Bug unless the schedule runs every list of every micro-batch once,
/// micro-batches in order.
Lists lists_of(const spmd::SpmdProgram& program, const pipeline::PipelineSchedule& schedule);

/// Copies of transfers' operands that let senders run as far ahead as the schedule does.
class SendSlots {
 public:
  /// Plays the schedule.
  SendSlots(const spmd::SpmdProgram& program, const pipeline::PipelineSchedule& schedule);

  /// Copies of the operand without which the sender would wait for runs of the receiver that may
  /// wait for the sender. More than one if the transfer skips a stage: the sender then runs ahead.
  int of(const Node& transfer) const;

 private:
  using Begins = std::vector<int>;  ///< clocks, by micro-batch
  const spmd::SpmdProgram& program_;
  /// Clocks of the runs by mesh and region; empty: no such runs.
  std::vector<std::array<Begins, 3>> begins_;
};

}  // namespace alpa::lower
