#pragma once
/// When a solve stops: after seconds of wall clock or, under a work limit, after a count of work, so that
/// the answer does not depend on the machine. Every loop of the solver that can take longer than some
/// milliseconds asks `passed`, and tells `spend` what it does. Not shared between threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace alpa::ilp {

/// Cells of work that count as a second under a work limit: about what a core does.
inline constexpr double kCellsPerSecond = 1e9;

/// After the time limit, this long for what must still be delivered: a first choice, and the way back from
/// the reduced model. An answer is due one second after the limit.
inline constexpr double kGraceSeconds = 0.4;

class Deadline {
 public:
  /// `work` > 0: seconds are counted in cells, and `seconds` of wall clock end the solve all the same, as
  /// does `*stop` when it becomes true.
  explicit Deadline(double seconds, std::int64_t work = 0, const std::atomic<bool>* stop = nullptr);

  /// The earlier of this one and `seconds` from now, which is the start of its `elapsed`.
  Deadline within(double seconds) const;

  /// `kGraceSeconds` after this one, or from now if it has passed; nothing stops it earlier.
  Deadline with_grace() const;

  /// Seconds since the start and to the end; of wall clock, or counted in cells.
  double elapsed() const { return now() - start_; }
  double left() const { return is_stopped() ? std::min(0.0, end_ - now()) : end_ - now(); }
  bool passed() const { return left() <= 0 || (work_ && wall_seconds() >= wall_end_); }

  /// Seconds of wall clock to the end, for work that cannot be counted.
  double wall_left() const { return work_ ? wall_end_ - wall_seconds() : left(); }
  const std::atomic<bool>* stop() const { return stop_; }
  bool counts_work() const { return work_ != nullptr; }

  /// `cells` of tables have been looked at.
  void spend(double cells) const {
    if (work_) *work_ += cells;
  }

 private:
  static double wall_seconds();
  bool is_stopped() const { return stop_ != nullptr && *stop_; }
  double now() const { return work_ ? *work_ / kCellsPerSecond : wall_seconds(); }

  std::shared_ptr<double> work_;  ///< cells so far, of all deadlines made from one; none: wall clock
  const std::atomic<bool>* stop_ = nullptr;
  double start_ = 0, end_ = 0, wall_end_ = 0;
};

}  // namespace alpa::ilp
