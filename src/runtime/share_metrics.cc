// src/runtime/share_metrics.cc — metrics go from the process that has them to all
#include "src/runtime/share_metrics.h"

#include <map>

#include "alpa/base/error.h"

namespace alpa::runtime {
namespace {

int first_reporting(int metric, const Programs& programs) {
  for (const lower::DeviceProgram* program : programs)
    for (const lower::Reported& reported : program->reported)
      if (reported.metric == metric) return program->device;
  bug("no device reports metric {}", metric);
}

}  // namespace

void share_metrics(std::vector<double>& values, const Programs& programs,
                   const Placement& placement) {
  std::map<int, std::vector<int>> of_rank;
  for (int metric = 0; metric < static_cast<int>(values.size()); ++metric)
    of_rank[placement.rank_of(first_reporting(metric, programs))].push_back(metric);
  for (const auto& [rank, metrics] : of_rank) {
    std::vector<double> told;
    for (const int metric : metrics) told.push_back(values[metric]);
    placement.world()->broadcast(reinterpret_cast<std::byte*>(told.data()),
                                 static_cast<std::int64_t>(told.size() * sizeof(double)), rank);
    for (std::size_t i = 0; i < metrics.size(); ++i) values[metrics[i]] = told[i];
  }
}

}  // namespace alpa::runtime
