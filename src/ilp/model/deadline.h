#pragma once
/// When a solve stops: after seconds of wall clock or, under a work limit, after a count of work,
/// so that the answer does not depend on the machine; or when it is stopped. Every loop of the
/// solver that can take longer than some milliseconds checks `passed`, and reports its work to
/// `spend`. Not shared between threads.
#include <atomic>
#include <cstdint>
#include <memory>

#include "src/base/work.h"

namespace alpa::ilp {

/// Cells of work that count as a second under a work limit: about what a core does.
inline constexpr double kCellsPerSecond = 1e9;

/// Work of planning per cell, in seconds, with all that goes beside: about what a slow core takes.
inline constexpr double kSecondsPerCell = 2e-9;

class Deadline {
 public:
  /// `work` > 0: seconds are counted in cells, and `seconds` of wall clock end the solve all the
  /// same, as does `*stop` when it becomes true.
  explicit Deadline(double seconds, std::int64_t work = 0, const std::atomic<bool>* stop = nullptr);

  /// The earlier of this one and `seconds` from now, which is the start of its `elapsed`.
  Deadline within(double seconds) const;

  /// `Tuning::Deadline::grace_seconds` after this one, or from now if it has passed; of all made
  /// from one, the first to pass begins the grace of all.
  Deadline with_grace() const;

  /// Seconds since the start and to the end; of wall clock, or counted in cells.
  double elapsed() const { return now() - start_; }
  double left() const;
  bool passed() const { return left() <= 0 || (counts_work_ && has_wall_passed()); }

  /// Seconds of wall clock to the end, for work that cannot be counted.
  double wall_left() const { return counts_work_ ? wall_end_ + grace_ - wall_seconds() : left(); }

  /// Reports that `cells` of tables have been read.
  void spend(double cells) const {
    shared_->cells += cells;
    spend_work(cells * kSecondsPerCell);
  }

 private:
  /// Of all deadlines made from one.
  struct Shared {
    double cells = 0;          ///< of work so far
    double graced_since = -1;  ///< seconds of the thread's processor when the grace began
  };

  bool has_wall_passed() const;
  static double wall_seconds();
  static double processor_seconds();
  double now() const { return counts_work_ ? shared_->cells / kCellsPerSecond : wall_seconds(); }
  double end() const;

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  bool counts_work_ = false;
  const std::atomic<bool>* stop_ = nullptr;
  double start_ = 0, end_ = 0;
  mutable double wall_end_ = 0;     ///< moved to the time at which it was first seen to stop
  double grace_ = 0;                ///< seconds after the end, however it comes
  mutable double stopped_at_ = -1;  ///< when it was first seen that it should stop
  mutable double looked_at_ = -1;   ///< cells at which the wall clock was read last
  mutable bool wall_passed_ = false;
};

}  // namespace alpa::ilp
