#pragma once
/// Queues the lists of those devices of a mesh that share a card, segment by segment: every
/// device's instructions in order, a collective once all members there have reached it. Runs on one
/// thread, which never waits for a card.
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective_group.h"
#include "loaded_device.h"
#include "nccl_group.h"
#include "segments.h"
#include "src/comm/group.h"

namespace alpa::cuda {

using LoadedDevices = std::vector<std::unique_ptr<LoadedDevice>>;

/// Calls made by a thread while it waits for a card after every instruction.
struct Waiting {
  StillWell still_well;             ///< asked now and then; throws to end it
  std::function<void()> meanwhile;  ///< lets others go on, whom the card may wait for
};

class MeshQueue {
 public:
  /// Makes the group of devices of these ids, as its members on card `ordinal` see it, for
  /// collectives among compute streams or (`overlapped`) communication streams.
  using MakeGroup = std::function<std::unique_ptr<CollectiveGroup>(const std::vector<int>& devices,
                                                                   bool overlapped, int ordinal)>;

  /// `mesh`: the mesh's devices in this process, as places among `devices`; they run the same
  /// lists. `members`: those of one card. Groups are made here, never later. `few`: segments are
  /// made for capture, see `segments_of`.
  /// `still_well`: asked while waiting.
  MeshQueue(LoadedDevices& devices, const std::vector<int>& mesh, std::vector<int> members,
            bool few, const MakeGroup& make_group, Waiting waiting);

  /// The stream that a captured list begins and ends on.
  Stream origin() const { return device(0).compute(); }
  const std::vector<lower::ListRun>& schedule() const { return device(0).program().schedule; }
  const std::vector<int>& members() const { return members_; }
  /// Names for tools: "stage 1"; "forward, micro-batch 2".
  const std::string& name() const { return name_; }
  const std::string& name_of(const lower::ListRun& run) const {
    return names_.at({run.list, run.micro_batch});
  }
  int ordinal() const { return device(0).card().ordinal; }
  const std::vector<Segment>& segments(const lower::ListRun& run) const {
    return segments_[run.list];
  }
  bool has_work(const lower::ListRun& run, std::size_t segment) const {
    return has_work_[run.list][segment];
  }
  /// Runs of the list so many micro-batches apart use the same memory.
  int slots(int list) const;
  /// True if nothing has to be queued before a step's first list.
  bool begins_clear() const;

  /// Makes later work on all streams wait for what was queued on `stream`, by an event of its card.
  void fork(Stream stream, cudaEvent_t event) const;
  /// Makes later work on `stream` wait for all streams.
  void join(Stream stream) const;

  /// Queues what comes before a step's first list. If `checked`, waits for it.
  void queue_clearing(bool checked) const;
  /// Queues the work of one segment on the devices' streams, into the arenas where they are placed;
  /// those of a run that have work in turn. If `checked`, waits after every instruction, so that
  /// what fails there is blamed on it. Throws Error naming the place.
  void queue(const lower::ListRun& run, std::size_t segment, bool checked);

  /// Throws Error if a peer of a group was lost.
  void check_health();
  void abort() noexcept;

  /// Counts of a member in a step: per group, its size and the counts.
  std::vector<std::pair<int, comm::Counts>> counts(int index) const;

 private:
  struct Group {
    std::vector<int> devices;  ///< by id, as collectives name them
    bool overlapped = false;
    std::unique_ptr<CollectiveGroup> collectives;
    std::vector<int> members;  ///< that are here, among `members_`
    std::vector<int> places;   ///< theirs among `devices`
    int met = 0;               ///< collectives queued of this list
    /// per member here: what it came to and is not queued yet
    std::vector<std::deque<Operation*>> waiting;
    std::vector<int> arrivals;         ///< per member here
    std::vector<comm::Counts> counts;  ///< per member here, of a step
  };
  /// A member's position in the segment.
  struct Cursor {
    bool marked = false, arrived = false;
    std::size_t at = 0;
  };

  void wait_for(Stream stream) const;
  LoadedDevice& device(std::size_t member) const { return *devices_[members_[member]]; }
  std::optional<int> member_of(int device) const;
  void join_groups(std::size_t member, const MakeGroup& make_group);
  Group& group_of(const std::vector<int>& devices, bool overlapped, const MakeGroup& make_group);
  void rewind(const lower::ListRun& run);
  bool advance(std::size_t member, const std::vector<int>& work, bool checked);
  bool pass(std::size_t member, Operation& operation, bool checked);
  bool is_in_segment(std::size_t member, int position) const;
  void arrive(std::size_t member, Operation& operation, bool checked);
  void queue_work(const std::vector<std::vector<int>>& work, bool checked);
  void meet_all(Group& group, bool checked);
  void meet(Group& group, bool checked);
  void begin_started(LoadedDevice& own, const Operation& started) const;
  void finish_started(LoadedDevice& own, const Operation& started) const;
  void finish(int list, bool checked);
  void add_segments(const std::vector<Segment>& of_mesh, const std::vector<int>& mesh);
  template <class Body>
  void at(std::size_t member, const Operation& operation, Body&& body) const;

  LoadedDevices& devices_;
  std::vector<int> members_;
  const bool few_;
  const Waiting waiting_;
  std::string name_;
  std::map<std::pair<int, int>, std::string> names_;  ///< of runs, by list and micro-batch
  std::vector<std::vector<Segment>> segments_;        ///< per list
  std::vector<Group> groups_;
  std::vector<std::vector<bool>> has_work_;  ///< per list and segment; the last one ends the list
  lower::ListRun run_;                       ///< that was queued last, and its segment
  std::size_t segment_ = std::numeric_limits<std::size_t>::max();
  std::vector<Cursor> cursors_;
};

}  // namespace alpa::cuda
