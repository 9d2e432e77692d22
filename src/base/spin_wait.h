#pragma once
/// Waiting for another thread to change a word: spins for some microseconds where that pays, then
/// sleeps. Threads that share cores yield to each other first, unless other programs use the cores
/// too: a yield then costs a whole time slice. Invariant: no thread sleeps on a word that has
/// already changed. So every change of a word that a thread may wait for is sequentially consistent
/// (the default order) and followed by `wake`.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

namespace alpa {

/// One object serves all words of a kind, since it learns from earlier waits whether
/// spinning pays. Thread-safe.
class SpinWait {
 public:
  using Word = std::atomic<std::uint32_t>;
  static constexpr int kAll = std::numeric_limits<int>::max();

  /// For `threads` that wait for each other. If there are more threads than cores they yield
  /// instead of spinning, because the awaited thread may need the core.
  explicit SpinWait(int threads);

  /// Waits until done(value of `word`) and returns that value.
  template <class Done>
  std::uint32_t wait(const Word& word, Done&& done) {
    std::uint32_t value = word.load();
    if (done(value) || (spinning_pays() && spin(word, value, done)) ||
        (yielding_pays() && give_way(word, value, done)))
      return value;
    const Clock::time_point start = Clock::now();
    do {
      const Sleeper sleeper(sleepers_);
      value = word.load();
      if (done(value)) break;
      sleep(word, value);
      value = word.load();
    } while (!done(value));
    note(Clock::now() - start);
    return value;
  }
  /// The same, or `wait_for` if there is a limit.
  template <class Done>
  void wait(const Word& word, Done&& done, std::optional<std::chrono::nanoseconds> limit) {
    if (limit)
      wait_for(word, *limit, done);
    else
      wait(word, done);
  }

  /// Between two looks at a word.
  static void relax();

  /// Waits until done(value of `word`), at most for `timeout`, asleep; false: it is not done.
  template <class Done>
  bool wait_for(const Word& word, std::chrono::nanoseconds timeout, Done&& done) {
    const Clock::time_point end = Clock::now() + timeout;
    const Sleeper sleeper(sleepers_);
    for (std::uint32_t value = word.load(); !done(value); value = word.load()) {
      const Clock::duration left = end - Clock::now();
      if (left <= Clock::duration::zero()) return false;
      sleep(word, value, left);
    }
    return true;
  }

  /// Wakes up to `count` threads that sleep on `word`; called after a change of `word`.
  void wake(Word& word, int count = kAll) {
    if (sleepers_.load() > 0) wake_sleepers(word, count);
  }

 private:
  using Clock = std::chrono::steady_clock;
  /// About the cost of sleeping and waking up; spinning longer does not pay.
  static constexpr std::chrono::microseconds kLongestSpin{50};
  static constexpr int kTriesPerLook = 16;  ///< at the word, between two looks at the clock
  /// Enough for every thread that shares the core to reach the same point.
  static constexpr int kYields = 16;

  /// A thread that is about to sleep, or asleep.
  class Sleeper {
   public:
    explicit Sleeper(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Sleeper() { --count_; }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    std::atomic<int>& count_;
  };

  template <class Done>
  bool spin(const Word& word, std::uint32_t& value, Done&& done) {
    const Clock::time_point end = Clock::now() + kLongestSpin;
    do {
      for (int i = 0; i < kTriesPerLook; ++i) {
        relax();
        value = word.load(std::memory_order_acquire);
        if (done(value)) return note_short(), true;
      }
    } while (Clock::now() < end);
    return false;
  }

  template <class Done>
  bool give_way(const Word& word, std::uint32_t& value, Done&& done) {
    for (int i = 0; i < kYields && yield(); ++i)
      if (done(value = word.load(std::memory_order_acquire))) return true;
    return false;
  }

  /// Yields the core. Returns false if that took so long that another program must have
  /// run, or if one did recently.
  static bool yield();
  static void sleep(const Word& word, std::uint32_t value);
  static void sleep(const Word& word, std::uint32_t value, std::chrono::nanoseconds timeout);
  static void wake_sleepers(Word& word, int count);

  // Estimate of whether spinning pays: a moving average over recent waits, of kAlways for a short
  // one and 0 for a long one. Lost updates of concurrent waits do no harm.
  static constexpr int kAlways = 1024, kPays = kAlways / 2, kMemory = 8;
  bool spinning_pays() const {
    return may_spin_ && short_.load(std::memory_order_relaxed) >= kPays;
  }
  void note_short() { remember(kAlways); }
  void note(Clock::duration slept) { remember(slept < 2 * kLongestSpin ? kAlways : 0); }
  void remember(int wait) {
    const int before = short_.load(std::memory_order_relaxed);
    const int after = before + (wait - before) / kMemory;
    if (after != before) short_.store(after, std::memory_order_relaxed);
  }

  bool yielding_pays() const { return !may_spin_; }

  const bool may_spin_;
  std::atomic<int> sleepers_{0};
  std::atomic<int> short_{kAlways};
};

}  // namespace alpa
