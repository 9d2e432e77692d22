// src/train/schedule.cc — learning rates as functions of the step
#include <cmath>
#include <numbers>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/train/optimizer.h"

namespace alpa {
namespace {

void require_steps(const char* what, std::int64_t steps) {
  require(steps >= 1, "{}: {} steps; give at least 1", what, steps);
}

/// How much of `steps` has passed, at most 1.
double passed(std::int64_t step, std::int64_t steps) {
  return step >= steps ? 1 : static_cast<double>(step) / static_cast<double>(steps);
}

/// `peak` is reached at step `warmup`, where `then` is at its step 0.
Schedule warmed_up(double peak, std::int64_t warmup, Schedule then) {
  return [=](std::int64_t step) {
    return step < warmup ? peak * passed(step, warmup) : then(step - warmup);
  };
}

void require_warmup(const char* what, std::int64_t warmup, std::int64_t total) {
  require(warmup >= 0 && total > warmup,
          "{}: {} warm-up steps of {} steps in total; the warm-up must be shorter", what, warmup,
          total);
}

}  // namespace

Schedule linear_schedule(double from, double to, std::int64_t steps) {
  require_steps("linear_schedule", steps);
  return [=](std::int64_t step) { return from + (to - from) * passed(step, steps); };
}

Schedule cosine_schedule(double from, double to, std::int64_t steps) {
  require_steps("cosine_schedule", steps);
  return [=](std::int64_t step) {
    return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * passed(step, steps)));
  };
}

Schedule join_schedules(std::vector<SchedulePart> parts, LearningRate last) {
  for (const SchedulePart& part : parts) require_steps("join_schedules", part.steps);
  return [parts = std::move(parts), last = std::move(last)](std::int64_t step) {
    for (const SchedulePart& part : parts) {
      if (step <= part.steps) return part.rate(step);
      step -= part.steps;
    }
    return last(step);
  };
}

Schedule warmup_constant(double peak, std::int64_t warmup) {
  require(warmup >= 0, "warmup_constant: {} warm-up steps; give at least 0", warmup);
  return warmed_up(peak, warmup, [peak](std::int64_t) { return peak; });
}

Schedule warmup_cosine(double peak, std::int64_t warmup, std::int64_t total, double floor) {
  require_warmup("warmup_cosine", warmup, total);
  return warmed_up(peak, warmup, cosine_schedule(peak, floor, total - warmup));
}

Schedule warmup_linear(double peak, std::int64_t warmup, std::int64_t total, double floor) {
  require_warmup("warmup_linear", warmup, total);
  return warmed_up(peak, warmup, linear_schedule(peak, floor, total - warmup));
}

Schedule warmup_inverse_sqrt(double peak, std::int64_t warmup) {
  require(warmup >= 1, "warmup_inverse_sqrt: {} warm-up steps; give at least 1", warmup);
  return warmed_up(peak, warmup, [=](std::int64_t step) {
    return peak * std::sqrt(static_cast<double>(warmup) / static_cast<double>(warmup + step));
  });
}

}  // namespace alpa
