#pragma once
/// Queues a whole step of all devices of the process: every device's list in its order, collectives when
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

  /// Queues one step on the devices' streams, into the arenas where they are placed. If `checked`, waits
  /// after every instruction, so that what fails there is blamed on it. Throws Error naming the place, Bug
  /// if the devices' lists do not meet.
  void queue(bool checked);

  /// Throws Error if a peer of a group was lost.
  void check_health();
  void abort() noexcept;

  /// Of device `rank` in the last step queued: per group its size and the counts.
  std::vector<std::pair<int, comm::Counts>> counts(int rank) const;

 private:
  struct Group {
    std::vector<int> ranks;
    bool overlapped = false;
    std::unique_ptr<CollectiveGroup> collectives;
    int met = 0;                                  ///< collectives queued in this step
    std::vector<std::deque<Operation*>> waiting;  ///< per member: what it came to and is not queued yet
    std::vector<int> arrivals;                    ///< per member
    std::vector<comm::Counts> counts;             ///< per member
  };
  /// Where a device is in its lists.
  struct Cursor {
    int micro_batch = 0;
    bool applies = false, arrived = false;
    std::size_t at = 0;
  };

  void join(int rank, Operation& operation, const MakeGroup& make_group);
  void rewind();
  void clear(const LoadedDevice& device, bool checked) const;
  bool at_end(int rank) const;
  std::vector<Operation>& list_of(int rank);
  bool advance(int rank, bool checked);
  bool pass(int rank, Operation& operation, bool checked);
  void arrive(int rank, Operation& operation, bool checked);
  void meet(Group& group, bool checked);
  template <class Body>
  void at_place(int rank, const Operation& operation, Body&& body) const;

  const SpmdProgram& program_;
  LoadedDevices& devices_;
  std::vector<Group> groups_;
  std::vector<Cursor> cursors_;
};

}  // namespace alpa::cuda
