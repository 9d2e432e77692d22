#pragma once
/// The barrier of a thread group: all members meet when a call starts (`enter`) and when all have read what
/// they need (`leave`). Between the two a member may read what the others published. Invariants: a call
/// that all have entered is left by all, so nobody's buffers vanish while another reads them; after `abort`
/// no call is entered.
#include <atomic>
#include <cstdint>

namespace alpa::comm {

/// Waits for a condition on an atomic word: spins briefly if there are cores to spare, gives way a few
/// times, then sleeps. `done(value)` decides; returns the value that satisfied it.
class Patience {
 public:
  /// `waiters`: threads that may wait at once; with more than there are cores nobody spins.
  explicit Patience(int waiters);

  template <class Word, class Done>
  Word wait(const std::atomic<Word>& word, Done&& done) const {
    for (int tries = 0;; ++tries) {
      const Word value = word.load(std::memory_order_acquire);
      if (done(value)) return value;
      if (tries < spins_)
        relax();
      else if (tries < spins_ + kYields)
        yield();
      else
        word.wait(value, std::memory_order_acquire);
    }
  }

 private:
  static constexpr int kYields = 4;
  static void relax();
  static void yield();
  int spins_;
};

class Rendezvous {
 public:
  explicit Rendezvous(int size) : size_(static_cast<std::uint32_t>(size)), patience_(size) {}

  /// Returns when all members have entered. Throws Aborted if `abort` came first.
  void enter() { arrive(true); }
  /// Returns when all members have left; only after `enter`.
  void leave() noexcept { arrive(false); }
  void abort();

 private:
  // One word: aborted flag, number of completed meetings (wrapping), members that have arrived at the
  // current one.
  static constexpr std::uint32_t kAborted = 0x80000000u, kMeeting = 0x10000u, kMeetings = 0x7fff0000u,
                                 kArrived = 0xffffu;
  void arrive(bool abortable);

  alignas(64) std::atomic<std::uint32_t> word_{0};
  std::uint32_t size_;
  Patience patience_;
};

}  // namespace alpa::comm
