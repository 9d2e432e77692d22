#pragma once
/// Queues whole steps: every mesh's schedule in its order, lists as graphs or instruction by
/// instruction, messages between meshes once both sides have reached them. Runs on one thread,
/// which never waits for a card, unless processes share one (staged.h).
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "handles.h"
#include "lanes.h"
#include "mesh_queue.h"

namespace alpa::cuda {

/// Captured segments of lists: mesh, list, which of the copies that several
/// micro-batches have, segment.
using StepGraphs = std::map<std::array<int, 4>, GraphExec>;

class StepQueue {
 public:
  /// `captures`: steps may be captured. Groups and channels are made here, never later.
  /// `still_well`: asked while waiting for cards or other processes; throws to end that.
  StepQueue(LoadedDevices& devices, bool captures, const MeshQueue::MakeGroup& make_group,
            const Lanes::MakeChannel& make_channel, StillWell still_well);

  /// The stream on which a step begins and ends.
  Stream origin() const { return meshes_[0]->origin(); }

  /// Queues one step, in the arenas where the devices are placed: instruction by instruction, if
  /// `checked` waiting after each, so that what fails there is blamed on it. Throws Error naming
  /// the place, Bug if the devices' schedules do not meet.
  void queue(bool checked);
  /// The same through graphs; those that are not there yet are captured.
  void launch(StepGraphs& graphs);

  /// Throws Error if a peer was lost.
  void check_health();
  void abort() noexcept;

  /// Counts of device `index` in a step: per group, its size and the counts.
  std::vector<std::pair<int, comm::Counts>> counts(int index) const;

 private:
  /// A mesh's position in its schedule.
  struct Cursor {
    std::size_t run = 0, segment = 0;
    bool waits = false;                 ///< within the segment, for other processes
    std::vector<std::size_t> messages;  ///< per member: of the segment, that it has come past
  };

  void walk(StepGraphs* graphs, bool checked);
  bool walk_on(StepGraphs* graphs, bool checked);
  bool advance(int mesh, StepGraphs* graphs, bool checked);
  bool pass_messages(int mesh, const lower::ListRun& run, bool captured, bool checked, bool& moved);
  bool work(int mesh, const lower::ListRun& run, StepGraphs* graphs, bool checked);

  LoadedDevices& devices_;
  const StillWell still_well_;
  std::vector<std::unique_ptr<MeshQueue>> meshes_;
  Lanes lanes_;
  std::vector<Cursor> cursors_;
  EventHandle begun_;
  std::vector<EventHandle> mesh_begun_, mesh_done_;  ///< per mesh
};

}  // namespace alpa::cuda
