#pragma once
/// Messages between devices of different meshes. A lane, from one device to another, has its own
/// streams, so that it delays only the work that waits for it. A message is queued once those sides
/// have reached it that are in this process; messages of a lane stay in order. Runs on one thread,
/// which never waits for a card.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "channel.h"
#include "mesh_queue.h"

namespace alpa::cuda {

class Lanes {
 public:
  /// Makes the channel of a lane between devices of these ids; `number`: Message::lane.
  using MakeChannel = std::function<std::unique_ptr<Channel>(int from, int to, int number)>;

  /// Channels are made here, never later. `still_well`: asked while waiting.
  Lanes(LoadedDevices& devices, const MakeChannel& make_channel, const StillWell& still_well);

  /// No message of the step was queued yet.
  void begin_step();
  /// Device `index` comes to a send, a receive or a wait for one, in list `run.list`. A message can
  /// go when all is done that was queued so far for computing on device `behind`; what is queued
  /// there from now on comes behind what a wait is for. Returns false if the other side has not
  /// come to the message yet that a wait is for: try again. If `checked`, waits for messages that
  /// go. Throws Error naming the place.
  bool pass(int index, const lower::ListRun& run, const Operation& operation, int behind,
            bool checked);
  /// Makes later work on `stream` wait for all messages.
  void join(Stream stream) const;

  /// Goes on with messages that wait for other processes. Returns true if one could go.
  bool meet_begun();
  /// Some messages wait for other processes.
  bool waits() const;

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
  /// One side of a message that was come to.
  struct Post {
    Flow* flow;
    lower::ListRun run;
    const Operation* operation;
    MessageEnd end;
    int ordinal;  ///< of the card that `ready` belongs to
    EventHandle ready;
  };
  struct Side {
    int device;                ///< id
    std::optional<int> index;  ///< its place among the devices; nullopt: in another process
    StreamHandle own_stream;   ///< null: on one card both sides use the sender's
    Stream stream = nullptr;
    EventHandle over;         ///< for `join`
    std::deque<Post> posted;  ///< that the other side has not come to
  };
  struct Lane {
    Side sides[2];  ///< the sender, the receiver
    int number;     ///< Message::lane
    std::unique_ptr<Channel> channel;
    bool begun = false;  ///< the oldest message waits for another process
  };

  void add(int index, const lower::DeviceProgram& program, const MakeChannel& make_channel);
  void count(int index, const lower::Instruction& instruction, int runs);
  int lane_of(int from, int to, int number, const MakeChannel& make_channel);
  Side side_of(int device) const;
  void post(int index, const lower::ListRun& run, const Operation& operation, int behind);
  bool wait(int index, const lower::ListRun& run, const Operation& operation, Stream stream) const;
  bool meet(Lane& lane, bool checked);
  static void wait_for_both(const Post* const (&posts)[2]);
  bool go(Lane& lane, const Post* const (&posts)[2]) const;
  void begin(const Side& side, const Post& post) const;
  void end(const Side& side, const Post& post) const;
  EventHandle take_event(int ordinal);

  LoadedDevices& devices_;
  const StillWell still_well_;
  std::vector<Lane> lanes_;
  std::map<const lower::Instruction*, Flow> flows_;
  std::vector<comm::Counts> counts_;                ///< per device
  std::map<int, std::vector<EventHandle>> events_;  ///< that are free, by card
};

}  // namespace alpa::cuda
