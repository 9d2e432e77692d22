// src/compile/planning_clock.cc — says what took how long when planning exceeds its limit
#include "planning_clock.h"

#include <fmt/core.h>

#include <algorithm>

#include "alpa/base/error.h"

namespace alpa {

void PlanningClock::finished(std::string_view phase) {
  const double now = watch_.seconds();
  auto known = std::find_if(phases_.begin(), phases_.end(),
                            [&](const auto& entry) { return entry.first == phase; });
  if (known == phases_.end()) known = phases_.insert(known, {phase, 0});
  known->second += now - last_;
  last_ = now;
  require(!is_late(), "{}", text());
}

bool PlanningClock::is_late() const {
  const bool traced = !phases_.empty() && phases_.front().first == kTracing;
  const double tracing = traced ? phases_.front().second : 0;
  return watch_.seconds() - tracing > limit_ + kOvertimeSeconds;
}

std::string PlanningClock::text() const {
  std::string text;
  double total = watch_.seconds() - last_;  // since the last phase ended
  const double rest = total;
  const auto add = [&](std::string_view phase, double seconds) {
    text += fmt::format("{}{:.1f} s {}", text.empty() ? "" : ", ", seconds, phase);
  };
  for (const auto& [phase, seconds] : phases_) {
    total += seconds;
    add(phase, seconds);
  }
  if (rest >= 0.1) add("since then", rest);
  return fmt::format(
      "solver_seconds is {}, but planning took {:.1f} s: {}; raise solver_seconds, or give a "
      "smaller graph (fewer layers)",
      limit_, total, text);
}

}  // namespace alpa
