#pragma once
/// Queues whole steps: every mesh's schedule in its order, lists as graphs or instruction by
/// instruction, messages between meshes once both sides have reached them. Each card has a thread,
/// which captures and queues what runs there; NVIDIA warns of deadlocks where one thread captures
/// the collectives of several. None waits for a card.
#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "handles.h"
#include "lanes.h"
#include "mesh_queue.h"
#include "progress.h"
#include "src/runtime/device_threads.h"

namespace alpa::cuda {

/// Captured segments of lists, by mesh and card: list, which of the copies that several
/// micro-batches have, segment.
using StepGraphs = std::vector<std::map<std::array<int, 3>, GraphExec>>;

class StepQueue {
 public:
  /// `captures`: steps may be captured. Groups and channels are made here, never later.
  /// `still_well`: asked while waiting for cards or other processes; throws to end that.
  StepQueue(LoadedDevices& devices, bool captures, const MeshQueue::MakeGroup& make_group,
            const Lanes::MakeChannel& make_channel, StillWell still_well);

  /// The stream on which a step begins and ends.
  Stream origin() const { return queues_[0]->origin(); }

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
    std::vector<std::size_t> messages;  ///< per member: of the segment, that it has come past
  };

  /// Queues of one card, served by one thread.
  struct Card {
    int ordinal = 0;
    std::vector<int> queues;
  };

  void add_queue(const std::vector<int>& mesh, std::vector<int> members, bool captures,
                 const MeshQueue::MakeGroup& make_group);
  void begin_step();
  void walk(StepGraphs* graphs, bool checked);
  void fail() noexcept;
  void walk_card(int card, StepGraphs* graphs, bool checked);
  bool walk_on(const Card& card, StepGraphs* graphs, bool checked);
  bool advance(int queue, StepGraphs* graphs, bool checked);
  bool pass_messages(int queue, const lower::ListRun& run, bool captured, bool checked,
                     bool& moved);
  void work(int queue, const lower::ListRun& run, StepGraphs* graphs, bool checked);
  void require_running() const;

  LoadedDevices& devices_;
  const StillWell still_well_;
  std::vector<std::unique_ptr<MeshQueue>> queues_;  ///< per mesh and card
  std::vector<Card> cards_;
  std::mutex mutex_;            ///< of the next
  std::exception_ptr failure_;  ///< the first of a step
  std::atomic<bool> failed_{false};
  Progress progress_;
  Lanes lanes_;
  std::vector<Cursor> cursors_;
  EventHandle begun_;
  std::vector<EventHandle> queue_begun_, queue_done_;  ///< per mesh and card
  runtime::DeviceThreads threads_;                     ///< last: they use all of the above
};

}  // namespace alpa::cuda
