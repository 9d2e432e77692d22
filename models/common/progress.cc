// models/common/progress.cc — the progress line of a training run
#include "models/common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "alpa/base/text.h"
#include "models/common/text.h"

namespace models {
namespace {

/// Seconds between two lines.
constexpr double kLiveInterval = 0.1, kPlainInterval = 2;

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Progress::Progress(std::int64_t first, std::int64_t steps, std::int64_t items_per_step,
                   std::string item, double flops_per_step, std::int64_t planned_bytes,
                   double peak_rate)
    : first_(first),
      steps_(steps),
      items_per_step_(items_per_step),
      item_(std::move(item)),
      flops_per_step_(flops_per_step),
      planned_bytes_(planned_bytes),
      peak_rate_(peak_rate),
      done_(first),
      live_(isatty(fileno(stdout)) != 0),
      start_(Clock::now()),
      last_line_(start_) {}

bool Progress::due(Clock::time_point now) const {
  if (done_ == first_ + 1 || done_ == steps_) return true;
  return seconds_between(last_line_, now) >= (live_ ? kLiveInterval : kPlainInterval);
}

void Progress::step(double loss) {
  ++done_;
  const Clock::time_point now = Clock::now();
  if (!due(now)) return;
  last_line_ = now;
  const double per_step = seconds_between(start_, now) / static_cast<double>(done_ - first_);
  const double shown = std::isnan(loss) ? std::abs(loss) : loss;  // the sign of a NaN says nothing
  const std::string line = fmt::format(
      "step {:>{}}/{}  loss {:.4f}  {:.0f} {}/s  {:.1f} GFLOP/s{}  {} per device planned  ETA {}",
      done_, fmt::formatted_size("{}", steps_), steps_, shown,
      static_cast<double>(items_per_step_) / per_step, item_, flops_per_step_ / per_step * 1e-9,
      peak_rate_ > 0
          ? fmt::format(" ({:.0f} % of peak)", 100 * flops_per_step_ / per_step / peak_rate_)
          : "",
      alpa::bytes_text(static_cast<double>(planned_bytes_)),
      duration_text(per_step * static_cast<double>(steps_ - done_)));
  fmt::print("{}{}{}", live_ ? "\r\033[K" : "", line, live_ && done_ < steps_ ? "" : "\n");
  std::fflush(stdout);
}

}  // namespace models
