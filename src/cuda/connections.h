#pragma once
/// Connections between the devices of a program: the cards they are on, the groups of their
/// collectives and the channels of their lanes, in this process or in several.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "channel.h"
#include "collective_group.h"
#include "mesh_queue.h"
#include "src/runtime/placement.h"

namespace alpa::cuda {

/// Ordinals of the cards of `devices` devices, all in this process: each has one, or all share the
/// first if there are fewer.
std::vector<int> cards_of_devices(int devices);
/// Ordinals of the cards of this process's devices. Processes of a host that see the same cards
/// take different ones, in the order of their ranks. Collective. Throws Error, in all of them, if
/// one of them finds too few.
std::vector<int> cards_of_launch(const runtime::Placement& placement,
                                 std::span<const lower::DeviceProgram> everyone);

class Connections {
 public:
  /// Collective: makes the communicators of all groups and lanes, in an order that is the same in
  /// all processes. `everyone`: the programs of all devices, if there are other processes.
  /// `placement` outlives this. Throws Error.
  Connections(const LoadedDevices& devices, const runtime::Placement& placement,
              std::span<const lower::DeviceProgram> everyone);

  /// Hand over a group, once for each card of its members, and a lane's channel, once.
  std::unique_ptr<CollectiveGroup> group(const std::vector<int>& devices, bool overlapped,
                                         int ordinal);
  std::unique_ptr<Channel> channel(int from, int to, int number);

 private:
  /// A group, or the channel of a lane.
  struct Connection {
    std::vector<int> devices;  ///< members, by id; of a lane the sender and the receiver
    bool is_lane = false;
    bool overlapped = false;  ///< of a group
    bool pairs = false;       ///< of a group: it makes all_to_all
    int number = 0;           ///< of a lane
  };

  static std::vector<Connection> connections_of(std::span<const lower::DeviceProgram* const> all);
  void join_all(std::span<const lower::DeviceProgram* const> all);
  std::string parent_id(int first_device) const;
  void add(const Connection& connection, const std::vector<NcclRank>& ranks);

  const runtime::Placement& placement_;
  const StillWell still_well_;   ///< null: there is one process
  std::map<int, int> ordinals_;  ///< of the cards of devices here
  /// That are not taken yet; those of one card are made when they are.
  std::map<std::pair<std::vector<int>, int>, std::unique_ptr<CollectiveGroup>> groups_[2];
  std::map<std::tuple<int, int, int>, std::unique_ptr<Channel>> channels_;
};

}  // namespace alpa::cuda
