#pragma once
/// Messages between devices. A lane carries the messages from one sender to one receiver, in order.
/// Neither side waits to register its part. Within a process the second one to arrive copies the
/// box directly from the sender's memory into the receiver's; between processes it is sent packed.
/// So an early receive delays nothing.
/// Thread rule: of a lane, the sender's thread calls `send`, the receiver's `receive`, both `wait`;
/// `abort` is called by any thread, the rest between steps.
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "placement.h"
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

enum class LaneSide : std::uint8_t { sender, receiver };

class Lane {
 public:
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Adds a message to every step; called once by each side.
  virtual void add_message(LaneSide side) = 0;
  /// Room for packed boxes, if the lane needs it: for each of `slots` runs of an instruction with
  /// such a part, whose tensor needs no memory yet. Returns a number for `hand_over`.
  virtual int reserve(const MessagePart& part, int slots) = 0;
  virtual std::int64_t reserved_bytes() const = 0;
  /// Waits until what was sent in the step is out of its memory; after both sides' threads are
  /// done. Throws comm::Aborted.
  virtual void end_step() = 0;
  /// Forgets the last step.
  virtual void reset() = 0;
  virtual void abort() = 0;

  /// One side of message number `number` of the step. `room`: as reserved, plus the slot. Throws
  /// comm::Aborted after `abort`.
  virtual void hand_over(LaneSide side, int number, const MessagePart& part, int room,
                         ThreadTeam& team) = 0;
  /// True if the message, and all that were handed over before it, are known to be copied. Throws
  /// comm::Aborted after `abort`.
  virtual bool done(int number) const = 0;
  /// Waits until `done(number)`, at most for `limit` if both devices are in this process. Throws
  /// comm::Aborted after `abort`.
  virtual void wait(int number, ThreadTeam& team,
                    std::optional<std::chrono::nanoseconds> limit = {}) = 0;

 protected:
  Lane() = default;
};

/// All lanes of a process.
class Lanes {
 public:
  /// `placement` outlives this.
  Lanes(int devices, const Placement& placement) : placement_(placement), spin_wait_(devices) {}

  Lane& between(int sender, int receiver, int number);
  bool any() const { return !lanes_.empty(); }
  /// Bytes of packed boxes, of all lanes.
  std::int64_t reserved_bytes() const;
  void end_step();
  void reset();
  void abort();

 private:
  const Placement& placement_;
  SpinWait spin_wait_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Lane>> lanes_;
};

}  // namespace alpa::runtime
