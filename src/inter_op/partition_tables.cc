// src/inter_op/partition_tables.cc — configurations that can be best, transfers, and bounds
#include "src/inter_op/partition_tables.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/base/infinity.h"

namespace alpa::inter_op {
namespace {

void check(const PartitionProblem& problem) {
  const PartitionCosts& costs = problem.costs;
  invariant(costs.layers > 0 && problem.micro_batches > 0,
            "stage search: {} layers, {} micro-batches", costs.layers, problem.micro_batches);
  invariant(costs.submeshes == static_cast<int>(problem.submeshes.size()),
            "stage search: costs of {} submeshes, but {} submeshes", costs.submeshes,
            problem.submeshes.size());
  for (const Submesh& submesh : problem.submeshes)
    invariant(submesh.hosts >= 1 && submesh.hosts <= problem.cluster.hosts &&
                  submesh.devices >= 1 && submesh.devices <= problem.cluster.devices &&
                  (submesh.hosts == 1 || submesh.devices == problem.cluster.devices),
              "stage search: submesh {} in cluster {}", submesh, problem.cluster);
}

/// Per number of stages after a stage, the micro-batches in flight at it.
std::vector<int> in_flight_of(const PartitionProblem& problem) {
  const int stages = std::min(problem.costs.layers, problem.cluster.num_devices());
  std::vector<int> in_flight;
  for (int after = 0; after < stages; ++after)
    in_flight.push_back(problem.in_flight ? problem.in_flight(after)
                                          : std::min(problem.micro_batches, after + 1));
  invariant(std::is_sorted(in_flight.begin(), in_flight.end()),
            "stage search: fewer micro-batches in flight at an earlier stage");
  return in_flight;
}

/// Appends the options of one range on one submesh that are best for some number of stages. `all`
/// is scratch.
void append_options(const PartitionProblem& problem, const std::vector<int>& in_flight, int first,
                    int last, int m, std::vector<PartitionOption>& all,
                    std::vector<PartitionOption>& options) {
  const PartitionCosts& costs = problem.costs;
  all.clear();
  for (int c = 0; c < costs.configurations; ++c) {
    const std::size_t at = costs.index(first, last, m, c);
    const auto fits = std::upper_bound(in_flight.begin(), in_flight.end(), costs.max_in_flight[at]);
    const int most_after = static_cast<int>(fits - in_flight.begin()) - 1;
    if (most_after >= 0 && costs.seconds[at] < kInfinity)
      all.push_back({costs.seconds[at], most_after, c});
  }
  std::sort(all.begin(), all.end(), [](const PartitionOption& a, const PartitionOption& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.configuration < b.configuration;
  });
  int most_after = -1;
  for (const PartitionOption& option : all) {
    if (option.most_after <= most_after) continue;
    most_after = option.most_after;
    options.push_back(option);
  }
}

/// Where more stages after a stage have no more micro-batches in flight, they are not counted.
void set_in_flight(std::vector<int> in_flight, PartitionTables& tables) {
  const auto most = std::lower_bound(in_flight.begin(), in_flight.end(), in_flight.back());
  tables.most_counted = std::max(tables.most_counted, static_cast<int>(most - in_flight.begin()));
  in_flight.resize(tables.most_counted + 1, in_flight.back());
  tables.in_flight = std::move(in_flight);
}

/// A stage may wait for any time, for transfers up to as long again as the slowest takes: between
/// bounds that are far from each other, more are tried.
void refine_bounds(std::vector<double>& bounds) {
  if (!bounds.empty()) bounds.push_back(2 * bounds.back());
  std::vector<double> refined;
  for (const double bound : bounds) {
    while (!refined.empty() && refined.back() > 0 && refined.back() * (1 + kBoundStep) < bound)
      refined.push_back(refined.back() * (1 + kBoundStep));
    refined.push_back(bound);
  }
  bounds = std::move(refined);
}

void set_options(const PartitionProblem& problem, PartitionTables& tables) {
  const std::vector<int> in_flight = in_flight_of(problem);
  std::vector<PartitionOption> scratch;
  for (int first = 0; first < tables.layers; ++first)
    for (int last = 0; last < tables.layers; ++last)
      for (int m = 0; m < tables.submeshes; ++m) {
        tables.begin.push_back(tables.options.size());
        if (last >= first)
          append_options(problem, in_flight, first, last, m, scratch, tables.options);
      }
  tables.begin.push_back(tables.options.size());
  for (const PartitionOption& option : tables.options)
    if (option.most_after + 1 < static_cast<int>(in_flight.size()))
      tables.most_counted = std::max(tables.most_counted, option.most_after + 1);
  if (problem.waits_in_flight) set_in_flight(in_flight, tables);
}

void set_transfers(const PartitionProblem& problem, PartitionTables& tables) {
  tables.transfers = problem.transfer_seconds != nullptr;
  if (!tables.transfers) return;
  tables.transfer.resize(tables.range(1, 0, 0) * tables.submeshes);
  auto next = tables.transfer.begin();
  for (int layer = 0; layer < tables.layers; ++layer)
    for (int before = 0; before < tables.submeshes; ++before)
      for (int after = 0; after < tables.submeshes; ++after, ++next)
        if (layer > 0) *next = problem.transfer_seconds(layer, before, after);
}

}  // namespace

PartitionTables partition_tables(const PartitionProblem& problem) {
  check(problem);
  PartitionTables tables{.layers = problem.costs.layers, .submeshes = problem.costs.submeshes};
  set_options(problem, tables);
  set_transfers(problem, tables);
  for (const PartitionOption& option : tables.options) tables.bounds.push_back(option.seconds);
  tables.bounds.insert(tables.bounds.end(), tables.transfer.begin(), tables.transfer.end());
  std::sort(tables.bounds.begin(), tables.bounds.end());
  tables.bounds.erase(std::unique(tables.bounds.begin(), tables.bounds.end()), tables.bounds.end());
  if (problem.waits_in_flight) refine_bounds(tables.bounds);
  return tables;
}

}  // namespace alpa::inter_op
