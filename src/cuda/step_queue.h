#pragma once
/// Queues lists of all devices of the process: every device's instructions in their order, collectives when
/// all members have come to them. One thread, and nothing waits for a card.
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "alpa/comm/group.h"
#include "collective_group.h"
#include "loaded_device.h"

namespace alpa::cuda {

using LoadedDevices = std::vector<std::unique_ptr<LoadedDevice>>;

class StepQueue {
 public:
  /// Makes the group of devices of these ranks.
  using MakeGroup = std::function<std::unique_ptr<CollectiveGroup>(const std::vector<int>& ranks)>;

  /// `devices` are all members of all groups that their programs name. The groups are made here, never
  /// later: one for collectives among the compute streams, another for those among communication streams.
  StepQueue(const SpmdProgram& program, LoadedDevices& devices, const MakeGroup& make_group);

  /// Queues what comes before a step's first list. If `checked`, waits for it.
  void queue_clearing(bool checked) const;
  /// Queues one list of all devices on their streams, into the arenas where they are placed. If `checked`,
  /// waits after every instruction, so that what fails there is blamed on it. Throws Error naming the
  /// place, Bug if the devices' lists do not meet.
  void queue(const ListRun& run, bool checked);

  /// Throws Error if a peer of a group was lost.
  void check_health();
  void abort() noexcept;

  /// Of device `rank` in a step: per group its size and the counts.
  std::vector<std::pair<int, comm::Counts>> counts(int rank) const;

 private:
  struct Group {
    std::vector<int> ranks;  ///< its devices, by their numbers in this process
    bool overlapped = false;
    std::unique_ptr<CollectiveGroup> collectives;
    int met = 0;                                  ///< collectives queued of this list
    std::vector<std::deque<Operation*>> waiting;  ///< per member: what it came to and is not queued yet
    std::vector<int> arrivals;                    ///< per member
    std::vector<comm::Counts> counts;             ///< per member, of a step
  };
  /// Where a device is in the list.
  struct Cursor {
    bool arrived = false;
    std::size_t at = 0;
  };

  void join(int rank, const ListRun& run, const MakeGroup& make_group);
  std::vector<int> numbers_of(const std::vector<int>& devices) const;
  Group& group_of(const std::vector<int>& ranks, bool overlapped, const MakeGroup& make_group);
  void rewind(const ListRun& run);
  bool at_end(int rank);
  std::vector<Operation>& list_of(int rank) { return devices_[rank]->list(run_.list); }
  bool advance(int rank, bool checked);
  bool pass(int rank, Operation& operation, bool checked);
  void arrive(int rank, Operation& operation, bool checked);
  void meet(Group& group, bool checked);
  template <class Body>
  void at_place(int rank, const Operation& operation, Body&& body) const;

  const SpmdProgram& program_;
  LoadedDevices& devices_;
  std::vector<Group> groups_;
  ListRun run_;  ///< that is being queued
  std::vector<Cursor> cursors_;
};

}  // namespace alpa::cuda
