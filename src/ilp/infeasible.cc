// src/ilp/infeasible.cc — why a problem has no choice, and what would help
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

/// An explanation may take this long, or as long as the search before it.
constexpr double kLeastSeconds = 1;

/// The problem with all finite costs zero: only feasibility counts.
Problem feasibility_problem(const Problem& problem) {
  Problem result = problem;
  std::map<const void*, Table> tables;
  for (Node& node : result.nodes) node.costs = free_of_charge(node.costs);
  const auto free = [&](Table& costs) {
    Table& known = tables[costs.get()];
    if (!known) known = table(free_of_charge(*costs));
    costs = known;
  };
  for (Edge& edge : result.edges) free(edge.costs);
  for (SharedCost& shared : result.shared) free(shared.costs);
  return result;
}

Infeasible forbidden() {
  return Infeasible(
      "no choice avoids the forbidden combinations (costs of at least 10^18), whatever the usage limit; "
      "allow more "
      "strategies or lower those costs");
}

/// The same problem without a limit, in which a choice costs what it uses at `time`.
Problem usage_problem(const Problem& free, std::int64_t time) {
  Problem result = free;
  result.usage_limit.reset();
  for (Node& node : result.nodes) {
    for (const Usage& usage : node.usages)
      for (std::size_t s = 0; usage.from <= time && time < usage.to && s < node.costs.size(); ++s)
        if (node.costs[s] < kInfinite) node.costs[s] += usage.amounts[s];
  }
  return result;
}

/// Proven: every choice uses at least this much at `time`.
std::int64_t least_usage(const Problem& free, std::int64_t time, const Options& options,
                         const Deadline& deadline) {
  const auto result = attempt(usage_problem(free, time), options, deadline);
  const auto* solution = std::get_if<Solution>(&result);
  return solution ? solution->lower_bound : 0;
}

/// Least peak that some choice reaches, between what the times of failures prove and `known`, a choice
/// without limit; by bisection where these do not meet. Its lower bound becomes the least peak possible.
Solution least_peak(Problem problem, const Options& options, const Deadline& deadline, Solution known,
                    const Contradiction& first) {
  std::int64_t impossible = *problem.usage_limit, next = impossible,
               time = first.missing > 0 ? first.time : known.peak_time;
  try {
    impossible = std::max(impossible, least_usage(problem, time, options, deadline) - 1);
    for (next = impossible + 1; impossible + 1 < known.peak_usage && !deadline.passed();) {
      problem.usage_limit = next;
      auto result = attempt(problem, options, deadline);
      if (auto* better = std::get_if<Solution>(&result)) {
        known = std::move(*better);
      } else {
        impossible = next;
        const Contradiction& why = std::get<Contradiction>(result);
        const bool elsewhere = why.missing > 0 && why.time != time;
        if (elsewhere) time = why.time;
        const std::int64_t least = elsewhere ? least_usage(problem, time, options, deadline) : 0;
        if (least - 1 > impossible) {
          impossible = least - 1;
          next = least;
          continue;
        }
      }
      next = impossible + (known.peak_usage - impossible) / 2;
    }
  } catch (const TimedOut&) {  // what is known so far is told
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

/// The error as the search proved it, where no time is left to find the least peak.
Infeasible over_limit(std::int64_t limit, const Contradiction& why) {
  Infeasible error(
      fmt::format("no choice keeps the usage limit {}: at time {} every choice uses at least {} more; "
                  "raise the limit by "
                  "at least {} or allow strategies that use less",
                  limit, why.time, why.missing, why.missing));
  error.missing_usage = why.missing;
  error.time = why.time;
  return error;
}

Solution without_limit(const Problem& free, const Options& options, const Deadline& deadline,
                       const Contradiction& why, std::int64_t limit) {
  try {
    auto known = attempt(free, options, deadline);
    if (std::holds_alternative<Contradiction>(known)) throw forbidden();
    return std::get<Solution>(std::move(known));
  } catch (const TimedOut&) {
    if (why.missing > 0) throw over_limit(limit, why);
    throw TimedOut(fmt::format(
        "no choice keeps the usage limit {}, and there was no time to find out why; allow more seconds",
        limit));
  }
}

}  // namespace

void explain_infeasible(const Problem& problem, const Options& given, const Contradiction& why,
                        const Deadline& search) {
  Options options = given;
  options.cutoff = kInfinite;
  options.progress = nullptr;
  const Deadline deadline = search.within(std::max(kLeastSeconds, search.elapsed()));
  Problem free = feasibility_problem(problem);
  free.usage_limit.reset();
  if (!problem.usage_limit) throw forbidden();
  Solution known = without_limit(free, options, deadline, why, *problem.usage_limit);
  free.usage_limit = problem.usage_limit;
  throw over_limit(*problem.usage_limit,
                   least_peak(std::move(free), options, deadline, std::move(known), why));
}

}  // namespace alpa::ilp
