#pragma once
/// Messages between devices of different meshes. A lane, from one device to another, has its own
/// streams, so that it delays only the work that waits for it. A message is queued once those sides
/// have reached it that are in this process; messages of a lane stay in order. Thread rule: each
/// card has one thread, which queues its side of a message. None waits for a card, unless checked,
/// and none holds a lock while it calls CUDA or waits.
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "channel.h"
#include "mesh_queue.h"
#include "progress.h"

namespace alpa::cuda {

class Lanes {
 public:
  /// Makes the channel of a lane between devices of these ids; `number`: Message::lane.
  using MakeChannel = std::function<std::unique_ptr<Channel>(int from, int to, int number)>;

  /// Channels are made here, never later. `still_well`: asked while waiting. `progress`: is told
  /// when a device comes to a message.
  Lanes(LoadedDevices& devices, const MakeChannel& make_channel, const StillWell& still_well,
        Progress& progress);

  /// Begins a step: none of its messages is queued yet.
  void begin_step();
  /// Device `index` comes to a send, a receive or a wait for one, in list `run.list`. A message can
  /// go when all is done that was queued so far for computing on device `behind`; what is queued
  /// there from now on comes behind what a wait is for. Returns false if the other side has not
  /// come to the message yet that a wait is for: try again. If `checked`, waits for messages of the
  /// card that go. Throws Error naming the place.
  bool pass(int index, const lower::ListRun& run, const Operation& operation, int behind,
            bool checked);
  /// Makes later work on `stream` wait for all messages.
  void join(Stream stream) const;

  /// Queues those messages of a card that can go by now. If `checked`, waits for each. Returns true
  /// if one could.
  bool go_on(int ordinal, bool checked);
  /// True if messages of a card wait for their other side.
  bool waits(int ordinal) const;

  /// Throws Error if a peer was lost.
  void check_health();
  void abort() noexcept;

  bool empty() const { return lanes_.empty(); }
  /// Messages and bytes of device `index` in a step.
  const comm::Counts& counts(int index) const { return counts_[index]; }

 private:
  /// The runs of one send or receive.
  struct Flow {
    int lane = -1;
    std::vector<EventHandle> done;  ///< of the last runs
    int posted = 0, queued = 0;     ///< in this step
  };
  /// One side of a message whose instruction the walk has reached.
  struct Post {
    Flow* flow;
    int index;  ///< of the device
    lower::ListRun run;
    const Operation* operation;
    MessageEnd end;
    int ordinal;  ///< of the card that `ready` belongs to
    EventHandle ready;
  };
  /// One end of a lane. Owned by its card's thread, except `posted`, `first` and `went`, which are
  /// guarded by the lock.
  struct Side {
    int device;                ///< id
    std::optional<int> index;  ///< its place among the devices; nullopt: in another process
    int ordinal = -1;          ///< of its card
    StreamHandle own_stream;   ///< null: on one card both sides use the sender's
    Stream stream = nullptr;
    EventHandle over;         ///< for `join`
    std::int64_t came = 0;    ///< messages of the step that it has come to
    std::int64_t went = 0;    ///< and has queued; others read it, so it is changed behind the lock
    std::deque<Post> posted;  ///< messages from number `first` on; one side has not queued them yet
    std::int64_t first = 0;
  };
  struct CardLane {
    Side sides[2];  ///< the sender, the receiver
    int number;     ///< Message::lane
    std::unique_ptr<Channel> channel;
    bool one_card = false;  ///< both sides are here on one card, and are queued together
  };
  /// The two sides of a message; null: it is in another process, or none of ours to queue.
  using Posts = std::array<const Post*, 2>;

  void add(int index, const lower::DeviceProgram& program, const MakeChannel& make_channel);
  void count(int index, const lower::Instruction& instruction, int runs);
  int lane_of(int from, int to, int number, const MakeChannel& make_channel);
  Side side_of(int device) const;
  void post(int index, const lower::ListRun& run, const Operation& operation, int behind);
  bool wait(int index, const lower::ListRun& run, const Operation& operation, Stream stream) const;
  bool go_on(CardLane& lane, int ordinal, bool checked);
  bool queue_next(CardLane& lane, int side, bool checked);
  Posts next_of(const CardLane& lane, int side) const;
  void go(CardLane& lane, const Posts& posts, const Posts& going) const;
  void begin(const Post& post) const;
  void end(const Post& post) const;
  void note_gone(CardLane& lane, const Posts& going);
  void wait_for(Stream stream, int ordinal);
  EventHandle take_event(int ordinal);

  LoadedDevices& devices_;
  const StillWell still_well_;
  Progress& progress_;
  std::vector<CardLane> lanes_;
  std::map<const lower::Instruction*, Flow> flows_;  ///< each belongs to the thread of its card
  std::vector<comm::Counts> counts_;                 ///< per device
  mutable std::mutex mutex_;                         ///< of posted messages, and of the next
  std::map<int, std::vector<EventHandle>> events_;   ///< that are free, by card
};

}  // namespace alpa::cuda
