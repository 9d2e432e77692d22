/// Why a problem has no choice, and what would help.
#include <algorithm>
#include <map>

#include "attempt.h"

namespace alpa::ilp {
namespace {

std::vector<std::int64_t> free_of_charge(std::vector<std::int64_t> costs) {
  for (std::int64_t& cost : costs)
    if (cost < kInfinite) cost = 0;
  return costs;
}

/// The problem with all finite costs zero: only feasibility counts.
Problem feasibility_problem(const Problem& problem) {
  Problem result = problem;
  std::map<const void*, Table> tables;
  for (Node& node : result.nodes) node.costs = free_of_charge(node.costs);
  for (Edge& edge : result.edges) {
    Table& shared = tables[edge.costs.get()];
    if (!shared) shared = table(free_of_charge(*edge.costs));
    edge.costs = shared;
  }
  return result;
}

Infeasible forbidden() {
  return Infeasible(
      "no choice avoids the forbidden combinations (costs of at least 10^18), whatever the usage limit; "
      "allow more "
      "strategies or lower those costs");
}

/// Least peak that some choice reaches, by bisection: `known` is a choice without limit.
Solution least_peak(Problem problem, const Options& options, const Deadline& deadline, Solution known) {
  std::int64_t impossible = *problem.usage_limit;
  while (impossible + 1 < known.peak_usage && !deadline.passed()) {
    problem.usage_limit = impossible + (known.peak_usage - impossible) / 2;
    if (auto better = attempt(problem, options, deadline))
      known = *std::move(better);
    else
      impossible = *problem.usage_limit;
  }
  known.lower_bound = impossible + 1;
  return known;
}

Infeasible over_limit(std::int64_t limit, const Solution& best) {
  std::int64_t missing = best.lower_bound - limit;
  bool exact = best.lower_bound == best.peak_usage;
  Infeasible error(
      fmt::format("no choice keeps the usage limit {}: the least possible peak is {}{}, at time {}; raise "
                  "the limit by {}{} or allow "
                  "strategies that use less",
                  limit, exact ? "" : fmt::format("between {} and ", best.lower_bound), best.peak_usage,
                  best.peak_time, exact ? "" : "at least ", missing));
  error.missing_usage = missing;
  error.time = best.peak_time;
  return error;
}

}  // namespace

void explain_infeasible(const Problem& problem, const Options& options, const Deadline& deadline) {
  Problem free = feasibility_problem(problem);
  free.usage_limit.reset();
  std::optional<Solution> known = attempt(free, options, deadline);
  if (!known || !problem.usage_limit) throw forbidden();
  free.usage_limit = problem.usage_limit;
  throw over_limit(*problem.usage_limit, least_peak(std::move(free), options, deadline, *std::move(known)));
}

}  // namespace alpa::ilp
