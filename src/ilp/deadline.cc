#include "deadline.h"

#include <algorithm>

namespace alpa::ilp {
namespace {

constexpr double kLongestSeconds = 1e8;

}  // namespace

double Deadline::wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Deadline::Deadline(double seconds, std::int64_t work, const std::atomic<bool>* stop)
    : work_(work > 0 ? std::make_shared<double>(0) : nullptr),
      stop_(stop),
      start_(now()),
      wall_end_(wall_seconds() + std::min(seconds, kLongestSeconds)) {
  end_ = work > 0 ? static_cast<double>(work) / kCellsPerSecond : wall_end_;
}

double Deadline::end() const {
  double end = end_;
  if (stop_ != nullptr && *stop_) {
    if (stopped_at_ < 0) stopped_at_ = now();
    end = std::min(end, stopped_at_);
  }
  return end + grace_;
}

Deadline Deadline::within(double seconds) const {
  Deadline result = *this;
  result.start_ = now();
  result.end_ = std::min(end(), result.start_ + seconds);
  result.wall_end_ += grace_;
  result.grace_ = 0;
  return result;
}

Deadline Deadline::with_grace() const {
  Deadline result = *this;
  result.end_ = std::max(end(), now());
  result.wall_end_ = std::max(wall_end_, wall_seconds());
  result.stopped_at_ = -1;
  result.grace_ = kGraceSeconds;
  return result;
}

}  // namespace alpa::ilp
