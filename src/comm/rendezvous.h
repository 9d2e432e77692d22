#pragma once
/// The barrier of a thread group: all members meet when a call starts (`enter`) and when all have
/// read what they need (`leave`). Between the two a member may read the tensors that the others
/// published. Invariants: a call that all have entered is left by all, so no buffer disappears
/// while another member reads it; after `abort` no call is entered. Neither waits, so one thread
/// may arrive for several members.
#include <chrono>
#include <cstdint>
#include <optional>

#include "src/base/spin_wait.h"

namespace alpa::comm {

/// A member's part in a meeting.
struct Arrival {
  std::uint32_t meeting = 0;
  bool abortable = false;
};

class Rendezvous {
 public:
  explicit Rendezvous(int size) : size_(static_cast<std::uint32_t>(size)), spin_wait_(size) {}

  /// A member begins a call. Throws Aborted after `abort`.
  Arrival enter() { return arrive(true); }
  /// The member has read what it needs of the others' tensors.
  Arrival leave() noexcept { return arrive(false); }
  /// True if all members have arrived at the meeting. Throws Aborted if `abort` came first.
  bool complete(const Arrival& arrival) const;
  /// Waits until the meeting is complete or aborted, at most for `limit`.
  void wait(const Arrival& arrival, std::optional<std::chrono::nanoseconds> limit);
  void abort();

 private:
  // One word: aborted flag, number of completed meetings (wrapping), members that have
  // arrived at the current one.
  static constexpr std::uint32_t kAborted = 0x80000000u, kMeeting = 0x10000u,
                                 kMeetings = 0x7fff0000u, kArrived = 0xffffu;
  Arrival arrive(bool abortable);

  alignas(64) SpinWait::Word word_{0};
  std::uint32_t size_;
  SpinWait spin_wait_;
};

}  // namespace alpa::comm
