// src/processes/progress.cc — reports of progress as bytes
#include "src/processes/progress.h"

#include <cstring>

namespace alpa::processes {

/// Call, time, messages, number of positions, positions, text.
std::string packed(const StepReport& report) {
  std::string bytes;
  const auto add = [&](std::uint64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  add(static_cast<std::uint64_t>(report.call));
  add(static_cast<std::uint64_t>(report.idle_milliseconds));
  add(static_cast<std::uint64_t>(report.together));
  add(report.positions.size());
  for (const std::uint64_t position : report.positions) add(position);
  return bytes + report.text;
}

StepReport unpacked_report(std::string_view bytes) {
  const auto take = [&] {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    bytes.remove_prefix(sizeof number);
    return number;
  };
  StepReport report;
  report.call = static_cast<std::int64_t>(take());
  report.idle_milliseconds = static_cast<std::int64_t>(take());
  report.together = static_cast<std::int64_t>(take());
  report.positions.resize(take());
  for (std::uint64_t& position : report.positions) position = take();
  report.text = bytes;
  return report;
}

}  // namespace alpa::processes
