#pragma once
/// Waiting for another thread: spins briefly if there are cores to spare, gives way a few times, then
/// sleeps.
#include <atomic>

namespace alpa {

class Patience {
 public:
  /// `waiters`: threads that may be busy or waiting at once; with more than there are cores nobody spins.
  explicit Patience(int waiters);

  /// Waits until done(value of `word`) and returns that value. Whoever changes `word` calls notify_all.
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
  static constexpr int kYields =
      16;  ///< enough for every thread that shares the core to come to the same point
  static void relax();
  static void yield();
  int spins_;
};

}  // namespace alpa
