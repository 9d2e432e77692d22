#pragma once
/// Placement of devices in processes, and the tags of messages between them.
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "src/lower/device_program.h"
#include "src/processes/world.h"

namespace alpa::runtime {

/// Processes of the devices of one set of device programs. Devices have the ids of their programs.
class Placement {
 public:
  /// All devices are in this process.
  Placement() = default;
  /// Devices are spread over the processes of `world`, in the order of `programs`; null: all are
  /// here. Collective: takes tags for the groups and lanes of `programs` that several processes
  /// share. Throws Error as `World::ranks_of_devices`.
  Placement(processes::World* world, std::span<const lower::DeviceProgram> programs);

  processes::World* world() const { return world_; }  ///< null: one process
  int rank() const { return world_ ? world_->rank() : 0; }
  int rank_of(int device) const { return world_ ? rank_of_.at(device) : 0; }
  bool here(int device) const { return rank_of(device) == rank(); }

  /// First tag of the group of these devices: of device threads, or of communication threads.
  int tag_of_group(const std::vector<int>& devices, bool communication) const {
    return groups_[communication].at(devices);
  }
  /// Groups by their devices, and lanes by sender, receiver and number, with their tags; the same
  /// in all processes. Empty if there is one.
  const std::map<std::vector<int>, int>& groups(bool communication) const {
    return groups_[communication];
  }
  const std::map<std::tuple<int, int, int>, int>& lanes() const { return lanes_; }
  int tag_of_lane(int sender, int receiver, int number) const {
    return lanes_.at({sender, receiver, number});
  }

 private:
  processes::World* world_ = nullptr;
  std::map<int, int> rank_of_;
  std::map<std::vector<int>, int> groups_[2];
  std::map<std::tuple<int, int, int>, int> lanes_;
};

}  // namespace alpa::runtime
