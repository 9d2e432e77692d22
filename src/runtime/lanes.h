#pragma once
/// Messages between devices of one process. A lane carries the messages from one sender to one
/// receiver, in order. Neither side waits to register its part: the second one to arrive copies the
/// box directly from the sender's memory into the receiver's. So an early receive delays nothing.
/// Thread rule: of a lane, the sender's thread calls `send`, the receiver's `receive`, both `wait`;
/// `abort` is called by any thread, the rest between steps.
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "src/base/spin_wait.h"
#include "src/base/thread_team.h"
#include "src/lower/device_program.h"
#include "src/tensor/kernel.h"

namespace alpa::runtime {

/// One side of a message: the box and its tensor, which both outlive the step,
/// and the tensor's elements.
struct MessagePart {
  const lower::Message* message = nullptr;
  const KernelTensor* tensor = nullptr;
  std::byte* data = nullptr;
};

class Lane {
 public:
  explicit Lane(SpinWait& spin_wait) : spin_wait_(spin_wait) {}

  /// One more message in every step.
  void add_message() { ++messages_; }
  /// Forgets the last step.
  void reset();
  void abort();

  /// Message number `number` of the step. Throws comm::Aborted after `abort`.
  void send(int number, const MessagePart& part, ThreadTeam& team) {
    hand_over(number, 0, part, team);
  }
  void receive(int number, const MessagePart& part, ThreadTeam& team) {
    hand_over(number, 1, part, team);
  }
  /// Until the message has been copied. Throws comm::Aborted after `abort`.
  void wait(int number);

 private:
  struct Entry {
    SpinWait::Word state{0};
    MessagePart parts[2];
  };
  static constexpr std::uint32_t kDone = 4, kAborted = 8;
  void hand_over(int number, int side, const MessagePart& part, ThreadTeam& team);

  SpinWait& spin_wait_;
  int messages_ = 0;
  std::vector<std::unique_ptr<Entry>> entries_;
};

/// All lanes of a process.
class Lanes {
 public:
  explicit Lanes(int devices) : spin_wait_(devices) {}

  Lane& between(int sender, int receiver, int number);
  bool any() const { return !lanes_.empty(); }
  void reset();
  void abort();

 private:
  SpinWait spin_wait_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Lane>> lanes_;
};

}  // namespace alpa::runtime
