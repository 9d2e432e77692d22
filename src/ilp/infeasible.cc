// Explains why a problem has no choice, and what would help
#include <algorithm>
#include <map>

#include "src/ilp/attempt.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

std::vector<std::int64_t> with_finite_zero(std::vector<std::int64_t> costs) {
  for (std::int64_t& cost : costs)
    if (cost < kInfinite) cost = 0;
  return costs;
}

/// The problem with all finite costs zero: only feasibility counts.
Problem feasibility_problem(const Problem& problem) {
  Problem result = problem;
  std::map<const void*, Table> tables;
  for (Node& node : result.nodes) node.costs = with_finite_zero(node.costs);
  const auto free = [&](Table& costs) {
    Table& known = tables[costs.get()];
    if (!known) known = table(with_finite_zero(*costs));
    costs = known;
  };
  for (Edge& edge : result.edges) free(edge.costs);
  for (SharedCost& shared : result.shared) free(shared.costs);
  return result;
}

Infeasible forbidden() {
  return Infeasible(
      "no choice avoids the forbidden combinations (costs of at least 10^18), "
      "whatever the usage limit; allow more strategies or lower those costs");
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

/// Bounds of the least peak: no choice stays within `impossible`, and
/// `known` is the best one found.
struct PeakSearch {
  Problem problem;
  const Options& options;
  const Deadline& deadline;
  Solution known;
  std::int64_t impossible = *problem.usage_limit, time = known.peak_time, claimed = 0;

  std::int64_t gap() const { return known.peak_usage - impossible - 1; }
  bool is_close() const {
    return static_cast<double>(gap()) <=
           kTuning.infeasible.close_enough * static_cast<double>(known.peak_usage);
  }

  std::int64_t smallest_step() const {
    return static_cast<std::int64_t>(kTuning.infeasible.close_enough *
                                     static_cast<double>(impossible));
  }

  /// A limit at most `step` above the least that may be possible, and below the one known.
  std::int64_t next(std::int64_t step) const { return impossible + 1 + std::min(step, gap() / 2); }

  /// True if it is decided whether a choice fits the limit.
  bool decide(std::int64_t limit) {
    if (deadline.passed()) return false;  // an attempt begins with work that is not interrupted
    problem.usage_limit = limit;
    try {
      auto result = attempt(problem, options, deadline.within(deadline.left() / 2));
      if (auto* better = std::get_if<Solution>(&result))
        known = std::move(*better);
      else
        raise(limit, std::get<Contradiction>(result));
      return true;
    } catch (const TimedOut&) {
      return false;
    }
  }

  /// No choice keeps the problem's limit. How much was missing proves nothing of higher limits, as
  /// strategies that never fit were left out, but it is mostly right: those limits are tried.
  void start(const Contradiction& why) {
    if (why.missing > 0) time = why.time;
    claimed = impossible + why.missing - 1;
    for (int k = 0;
         k < kTuning.infeasible.claims && claimed > impossible && claimed < known.peak_usage; ++k)
      if (!decide(claimed)) break;
    look_at_time();
  }

  /// No choice fits the limit. What every choice uses at the time that was exceeded may say more.
  void raise(std::int64_t limit, const Contradiction& why) {
    impossible = std::max(impossible, limit);
    claimed = limit + why.missing - 1;
    if (why.missing <= 0 || why.time == time) return;
    time = why.time;
    look_at_time();
  }

  /// A lower bound on the usage of every choice at `time`, solved without a limit.
  void look_at_time() {
    if (deadline.passed()) return;
    const auto result =
        attempt(usage_problem(problem, time), options, deadline.within(deadline.left() / 4));
    const auto* least = std::get_if<Solution>(&result);
    if (!least) return;
    impossible = std::max(impossible, least->lower_bound - 1);
    const Evaluation evaluation = evaluate(problem, least->choice);
    if (evaluation.peak_usage >= known.peak_usage) return;
    known = *least;
    known.peak_usage = evaluation.peak_usage;
    known.peak_time = evaluation.peak_time;
  }
};

/// Least peak that some choice reaches, between what failures prove and `known`, a choice without
/// limit. Bounds are mostly tight, so that limits just above them are tried first. The lower bound
/// of what is returned is that of the least peak.
Solution least_peak(const Problem& problem, const Options& options, const Deadline& deadline,
                    Solution known, const Contradiction& first) {
  PeakSearch search{problem, options, deadline, std::move(known)};
  try {
    search.start(first);
    for (std::int64_t step = search.smallest_step(); !search.is_close() && !deadline.passed();) {
      const std::int64_t limit = search.next(step);
      if (!search.decide(limit)) break;
      if (search.impossible >= limit) step = std::max<std::int64_t>(2 * step, 1);
    }
  } catch (const TimedOut&) {  // what is known so far is told
  }
  search.known.lower_bound = search.impossible + 1;
  return std::move(search.known);
}

Infeasible over_limit(std::int64_t limit, const Solution& best) {
  std::int64_t missing = best.lower_bound - limit;
  bool exact = best.lower_bound == best.peak_usage;
  Infeasible error(fmt::format(
      "no choice keeps the usage limit {}: the least possible peak is {}{}, at time {}; "
      "raise the limit by {}{} or allow strategies that use less",
      limit, exact ? "" : fmt::format("between {} and ", best.lower_bound), best.peak_usage,
      best.peak_time, exact ? "" : "at least ", missing));
  error.missing_usage = missing;
  error.time = best.peak_time;
  error.choice = best.choice;
  return error;
}

/// The error as the search proved it, where no time is left to find the least peak.
Infeasible over_limit(std::int64_t limit, const Contradiction& why) {
  Infeasible error(
      fmt::format("no choice keeps the usage limit {}: at time {} every choice uses more; "
                  "raise the limit or allow strategies that use less",
                  limit, why.time));
  error.missing_usage = 1;
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
        "no choice keeps the usage limit {}, and there was no time to find out why; allow more "
        "seconds",
        limit));
  }
}

Deadline deadline_after(const Deadline& search, const Options& options) {
  const double seconds = std::max(kTuning.infeasible.least_seconds,
                                  kTuning.infeasible.times_search * search.elapsed());
  if (options.limits.work <= 0) return search.within(seconds);
  return Deadline(search.wall_left(), static_cast<std::int64_t>(seconds * kCellsPerSecond),
                  options.limits.stop);
}

}  // namespace

void explain_infeasible(const Problem& problem, const Options& given, const Contradiction& why,
                        const Deadline& search) {
  Options options = given;
  options.limits.cutoff = kInfinite;
  options.progress = nullptr;
  options.usage_prices.clear();
  options.explain = options.limits.grace = false;
  options.limits.relative_gap = 0;
  const Deadline deadline = deadline_after(search, options);
  if (!problem.usage_limit) throw forbidden();
  if ((!given.explain || deadline.passed()) && why.missing > 0)
    throw over_limit(*problem.usage_limit, why);
  Problem free = feasibility_problem(problem);
  free.usage_limit.reset();
  Solution known = without_limit(free, options, deadline, why, *problem.usage_limit);
  free.usage_limit = problem.usage_limit;
  throw over_limit(*problem.usage_limit,
                   least_peak(std::move(free), options, deadline, std::move(known), why));
}

}  // namespace alpa::ilp
