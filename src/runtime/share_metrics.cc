// src/runtime/share_metrics.cc — metrics go from the process that has them to all
#include "src/runtime/share_metrics.h"

#include <cmath>

#include "alpa/base/error.h"

namespace alpa::runtime {
namespace {

int first_reporting(int metric, const Programs& programs) {
  for (const lower::DeviceProgram* program : programs)
    for (const lower::Reported& reported : program->reported)
      if (reported.metric == metric) return program->device;
  bug("no device reports metric {}", metric);
}

constexpr int kSignals = 256, kFailed = kSignals, kDue = 2 * kSignals;

/// A view as a number among metrics.
double number_of(const Background::View& view) {
  return view.signal + (view.failed ? kFailed : 0) + (view.due ? kDue : 0);
}

Background::View view_of(double number) {
  const int bits = static_cast<int>(number);
  return {bits % kSignals, (bits & kFailed) != 0, (bits & kDue) != 0};
}

}  // namespace

void share_metrics(std::vector<double>& values, const Programs& programs,
                   const Placement& placement,
                   const std::vector<std::shared_ptr<Background>>& background) {
  std::map<int, std::vector<int>> of_rank;
  if (!background.empty()) of_rank[0] = {};
  for (int metric = 0; metric < static_cast<int>(values.size()); ++metric)
    of_rank[placement.rank_of(first_reporting(metric, programs))].push_back(metric);
  for (const auto& [rank, metrics] : of_rank) {
    std::vector<double> told;
    for (const int metric : metrics) told.push_back(values[metric]);
    const std::size_t views = rank == 0 ? background.size() : 0;
    for (std::size_t i = 0; i < views; ++i) {
      Background::View view = background[i]->look();
      view.signal = placement.world()->protocol().stop_requested();
      told.push_back(number_of(view));
    }
    placement.world()->broadcast(reinterpret_cast<std::byte*>(told.data()),
                                 static_cast<std::int64_t>(told.size() * sizeof(double)), rank);
    for (std::size_t i = 0; i < metrics.size(); ++i) values[metrics[i]] = told[i];
    for (std::size_t i = 0; i < views; ++i) background[i]->agree(view_of(told[metrics.size() + i]));
  }
}

void check_finite(const std::map<std::string, double>& values, std::int64_t step) {
  for (const auto& [name, value] : values)
    require(std::isfinite(value),
            "metric \"{}\" is {} in step {}; lower the learning rate, clip gradients, "
            "or look for a division by zero or log of 0",
            name, std::isnan(value) ? std::abs(value) : value, step);
}

}  // namespace alpa::runtime
