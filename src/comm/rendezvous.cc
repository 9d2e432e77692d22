// src/comm/rendezvous.cc — the barrier of a thread group
#include "rendezvous.h"

#include "src/comm/group.h"

namespace alpa::comm {

Arrival Rendezvous::arrive(bool abortable) {
  std::uint32_t word = word_.load(std::memory_order_acquire);
  bool last = false;
  do {
    if (abortable && (word & kAborted)) throw Aborted();
    last = (word & kArrived) + 1 == size_;
  } while (!word_.compare_exchange_weak(
      word, last ? (word & kAborted) | ((word + kMeeting) & kMeetings) : word + 1));
  if (last) spin_wait_.wake(word_);
  return {word & kMeetings, abortable};
}

bool Rendezvous::complete(const Arrival& arrival) const {
  const std::uint32_t word = word_.load(std::memory_order_acquire);
  if ((word & kMeetings) != arrival.meeting) return true;
  if (arrival.abortable && (word & kAborted)) throw Aborted();
  return false;
}

void Rendezvous::wait(const Arrival& arrival, std::optional<std::chrono::nanoseconds> limit) {
  spin_wait_.wait(
      word_,
      [&](std::uint32_t value) {
        return (value & kMeetings) != arrival.meeting || (arrival.abortable && (value & kAborted));
      },
      limit);
}

void Rendezvous::abort() {
  word_.fetch_or(kAborted);
  spin_wait_.wake(word_);
}

}  // namespace alpa::comm
