// src/compile/pass_log.cc — verification, dumps and times between compiler passes
#include "pass_log.h"

#include <algorithm>
#include <filesystem>

#include "alpa/base/error.h"

namespace alpa {

PassLog::PassLog(std::string directory) : directory_(std::move(directory)) {
  if (directory_.empty()) return;
  std::error_code failure;
  std::filesystem::create_directories(directory_, failure);
  require(!failure, "dump_dir {}: {}", directory_, failure.message());
}

Graph PassLog::check(std::string_view name, Graph graph) const {
  verify(graph);
  write(name, [&] { return to_string(graph); });
  return graph;
}

spmd::SpmdProgram PassLog::check(std::string_view name, spmd::SpmdProgram program) const {
  verify(program);
  write(name, [&] { return to_string(program); });
  return program;
}

std::string PassLog::path_of(std::string_view name) const {
  const auto known = std::find(names_.begin(), names_.end(), name);
  const auto number = static_cast<int>(known - names_.begin()) + 1;
  if (known == names_.end()) names_.emplace_back(name);
  return fmt::format("{}/{:02}_{}", directory_, number, name);
}

void PlanningClock::begin(double limit) {
  limit_ = limit;
  begin_ = last_ = watch_.seconds();
  tracing_ = 0;
}

void PlanningClock::finished(std::string_view phase) {
  const double now = watch_.seconds();
  auto known = std::find_if(phases_.begin(), phases_.end(),
                            [&](const auto& entry) { return entry.first == phase; });
  if (known == phases_.end()) known = phases_.insert(known, {phase, 0});
  known->second += now - last_;
  if (phase == kTracing) tracing_ += now - last_;
  last_ = now;
}

bool PlanningClock::is_late() const {
  return watch_.seconds() - begin_ - tracing_ > limit_ + kOvertimeSeconds;
}

std::string PlanningClock::phases_text() const {
  std::string text;
  const auto add = [&](std::string_view phase, double seconds) {
    text += fmt::format("{}{:.1f} s {}", text.empty() ? "" : ", ", seconds, phase);
  };
  for (const auto& [phase, seconds] : phases_) add(phase, seconds);
  const double rest = watch_.seconds() - last_;  // since the last phase ended
  if (rest >= 0.1) add("since then", rest);
  return text;
}

std::string PlanningClock::late_text() const {
  return fmt::format(
      "solver_seconds is {}, but planning took {:.1f} s: {}; raise solver_seconds, or give a "
      "smaller graph (fewer layers)",
      limit_, watch_.seconds(), phases_text());
}

}  // namespace alpa
