#pragma once
/// The barrier of a thread group: all members meet when a call starts (`enter`) and when all have
/// read what they need (`leave`). Between the two a member may read the tensors that the others
/// published. Invariants: a call that all have entered is left by all, so no buffer disappears
/// while another member reads it; after `abort` no call is entered.
#include <cstdint>

#include "src/base/spin_wait.h"

namespace alpa::comm {

class Rendezvous {
 public:
  explicit Rendezvous(int size) : size_(static_cast<std::uint32_t>(size)), spin_wait_(size) {}

  /// Returns when all members have entered. Throws Aborted if `abort` came first.
  void enter() { arrive(true); }
  /// Returns when all members have left; only after `enter`.
  void leave() noexcept { arrive(false); }
  void abort();

 private:
  // One word: aborted flag, number of completed meetings (wrapping), members that have
  // arrived at the current one.
  static constexpr std::uint32_t kAborted = 0x80000000u, kMeeting = 0x10000u,
                                 kMeetings = 0x7fff0000u, kArrived = 0xffffu;
  void arrive(bool abortable);

  alignas(64) SpinWait::Word word_{0};
  std::uint32_t size_;
  SpinWait spin_wait_;
};

}  // namespace alpa::comm
