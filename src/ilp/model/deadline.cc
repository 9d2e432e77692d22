// When a solve stops, by wall clock or by a count of work
#include "src/ilp/model/deadline.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

constexpr double kLongestSeconds = 1e8;

}  // namespace

double Deadline::wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Deadline::processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Deadline::Deadline(double seconds, std::int64_t work, const std::atomic<bool>* stop)
    : counts_work_(work > 0),
      stop_(stop),
      start_(now()),
      wall_end_(wall_seconds() + std::min(seconds, kLongestSeconds)) {
  end_ = work > 0 ? static_cast<double>(work) / kCellsPerSecond : wall_end_;
}

double Deadline::end() const {
  double end = end_;
  if (stop_ != nullptr && *stop_) {
    if (stopped_at_ < 0) stopped_at_ = now(), wall_end_ = std::min(wall_end_, wall_seconds());
    end = std::min(end, stopped_at_);
  }
  return end;
}

double Deadline::left() const {
  const double left = end() - now();
  if (counts_work_ || left > 0 || grace_ == 0) return left + grace_;
  const double seconds = processor_seconds();
  if (shared_->graced_since < 0) shared_->graced_since = seconds;
  return grace_ - (seconds - shared_->graced_since);
}

/// Reads the clock once in a while only: loops ask more often than it is worth.
bool Deadline::has_wall_passed() const {
  constexpr double kCellsBetween = 1e5;
  if (looked_at_ < 0 || shared_->cells - looked_at_ >= kCellsBetween) {
    looked_at_ = shared_->cells;
    wall_passed_ = wall_left() <= 0;
  }
  return wall_passed_;
}

Deadline Deadline::within(double seconds) const {
  Deadline result = *this;
  result.start_ = now();
  result.end_ = result.start_ + std::min(left(), seconds);
  result.wall_end_ += grace_;
  result.grace_ = 0;
  result.looked_at_ = -1;
  return result;
}

Deadline Deadline::with_grace() const {
  Deadline result = *this;
  result.end_ = std::max(end(), now());
  result.wall_end_ = std::max(wall_end_, wall_seconds());
  result.stopped_at_ = -1;
  result.looked_at_ = -1;
  result.grace_ = kTuning.deadline.grace_seconds;
  return result;
}

}  // namespace alpa::ilp
