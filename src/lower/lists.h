#pragma once
/// The instruction lists of a device: which nodes each of them has, and in which order they run.
#include <array>
#include <string>
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::lower {

struct Lists {
  std::vector<std::string> names;
  std::vector<ListRun> schedule;
  /// Per mesh of the program, the device's lists of its forward, backward and apply nodes; -1: the
  /// device is not in the mesh.
  std::vector<std::array<int, 3>> of_mesh;
  std::vector<int> of_node;  ///< per node: the list that makes its results; -1: not on this device

  bool has(int mesh) const { return of_mesh[mesh][0] >= 0; }
  /// The list of the region's messages.
  int of(Region region, int mesh) const { return of_mesh[mesh][static_cast<int>(region)]; }
  int apply() const { return static_cast<int>(names.size()) - 1; }
};

/// Without a schedule: "accumulate", of forward and backward, and "apply"; with one micro-batch
/// only "apply". With a schedule: "forward", "backward", "weights" if it splits backward, and
/// "apply"; if several meshes have the device, "forward_0", "forward_1", … in their order,
/// "backward_…" and "weights_…" in reverse. List "weights" has the backward nodes on which no
/// message depends. Without backward runs there is no such list: throws Error if the program has
/// backward nodes. Throws Bug unless the schedule runs every list of every micro-batch once,
/// micro-batches in order.
Lists lists_of(const spmd::SpmdProgram& program, int device,
               const pipeline::PipelineSchedule& schedule);

/// How the schedule passes messages from one mesh to another.
class Transfers {
 public:
  Transfers(const spmd::SpmdProgram& program, const pipeline::PipelineSchedule& schedule);

  /// `Message::lane`: one per region and pair of meshes, because lists of different meshes of one
  /// device take turns in another order on the other device.
  int lane_of(const Node& transfer) const;

  /// Copies of the operand without which the sender would wait for runs of the receiver that may
  /// wait for the sender. More than one if the transfer skips a stage: the sender then runs ahead.
  int slots_of(const Node& transfer) const;

 private:
  using Begins = std::vector<int>;  ///< clocks, by micro-batch
  const spmd::SpmdProgram& program_;
  std::vector<int> chunk_;  ///< by mesh: its number among those with the same devices
  /// By mesh and region; empty: no such runs.
  std::vector<std::array<Begins, 3>> begins_;
};

}  // namespace alpa::lower
