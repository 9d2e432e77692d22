// src/comm/rendezvous.cc — the barrier of a thread group
#include "rendezvous.h"

#include "src/comm/group.h"

namespace alpa::comm {

void Rendezvous::arrive(bool abortable) {
  std::uint32_t word = word_.load(std::memory_order_acquire);
  bool last = false;
  do {
    if (abortable && (word & kAborted)) throw Aborted();
    last = (word & kArrived) + 1 == size_;
  } while (!word_.compare_exchange_weak(
      word, last ? (word & kAborted) | ((word + kMeeting) & kMeetings) : word + 1));
  if (last) return spin_wait_.wake(word_);
  const std::uint32_t meeting = word & kMeetings;
  const std::uint32_t now = spin_wait_.wait(word_, [&](std::uint32_t value) {
    return (value & kMeetings) != meeting || (abortable && (value & kAborted));
  });
  if ((now & kMeetings) == meeting) throw Aborted();
}

void Rendezvous::abort() {
  word_.fetch_or(kAborted);
  spin_wait_.wake(word_);
}

}  // namespace alpa::comm
