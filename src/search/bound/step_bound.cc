// Narrows what stages run once per step, until their bound is tight
//
// Let U be the largest of what stages run once per step. A line t >= a - w·u bounds a micro-batch
// of a stage that has u <= U: so an interval of U bounds all stages. The step takes U more. The
// interval of the least bound is halved until its stages take hardly more.
//
// For an interval, all labels below a bound on the step are found. The bound grows from what is
// certain: a program that finds no stages proves it, and takes the less time the lower the bound.
#include "src/search/bound/step_bound.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <queue>
#include <utility>

#include "alpa/base/error.h"
#include "src/search/bound/label_program.h"
#include "src/search/tuning.h"

namespace alpa::inter_op {
namespace {

/// Partitions whose largest of what runs once per step is in an interval.
struct OnceInterval {
  OnceRange once;
  double seconds = 0;         ///< of the step, at least
  std::vector<Label> stages;  ///< of these; none: not found yet

  bool operator<(const OnceInterval& other) const { return seconds > other.seconds; }
};

/// Searches the lists of submeshes of one tiling.
class StepBoundSearch {
 public:
  StepBoundSearch(const StepBoundProblem& problem, const StageCosts& costs, const Tiling& tiling,
                  double enough)
      : problem_(problem),
        costs_(costs),
        enough_(enough),
        program_(costs, tiling, [this](double work) { return is_over(work); }) {}

  StepBound run() {
    open({0, std::min(costs_.most_once(), enough_)}, 0);
    if (open_.top().seconds < kInfinity)
      program_.drop_small_differences(search::kTuning.step_bound.small_transfer *
                                      open_.top().seconds / costs_.micro_batches());
    while (open_.top().seconds < enough_ && !is_over(program_.work())) {
      OnceInterval least = open_.top();
      open_.pop();
      if (least.stages.empty()) {
        look(least);
        open_.push(std::move(least));
      } else if (is_narrow(least)) {
        return {least.seconds, costs_.partition(least.stages)};
      } else {
        best_ = least.stages;
        const double middle = (least.once.least + least.once.most) / 2;
        open({least.once.least, middle}, least.seconds);
        open({middle, least.once.most}, least.seconds);
      }
    }
    const OnceInterval& least = open_.top();
    if (least.seconds >= enough_) return {least.seconds, {}};
    return {least.seconds, costs_.partition(least.stages.empty() ? best_ : least.stages)};
  }

 private:
  bool is_over(double work) const {
    return ended_ || work >= problem_.most_work || (problem_.is_over && problem_.is_over());
  }

  void open(OnceRange once, double seconds) {
    open_.push({once, std::max(seconds, program_.quick_bound(once, enough_)), {}});
  }

  /// For stages a little above the bound; further above it as long as there are none, and to find
  /// that out is little work.
  void look(OnceInterval& interval) {
    constexpr double kLittle = 0.05;
    const double more = interval.seconds > 0 ? interval.seconds * (1 + growth_) : kInfinity;
    const double below = std::min(enough_, more), before = program_.work();
    Found found = program_.solve(interval.once, below);
    const bool is_far =
        found.stages.empty() && program_.work() - before < kLittle * problem_.most_work;
    growth_ = is_far ? 2 * growth_ : std::max(growth_ / 2, search::kTuning.step_bound.growth);
    if (!found.is_complete) {
      ended_ = true;
      return;
    }
    interval.seconds = std::max(interval.seconds, std::min(found.seconds, below));
    interval.stages = std::move(found.stages);
  }

  /// Whether its stages take hardly more than its bound says, with some number of the interval.
  bool is_narrow(const OnceInterval& interval) const {
    constexpr int kParts = 8;
    double least = kInfinity;
    for (int i = 0; i <= kParts; ++i) {
      const double once = std::lerp(interval.once.least, interval.once.most, i / double{kParts});
      least = std::min(least, seconds_of(interval.stages, {once, once}));
    }
    const double far = enough_ < kInfinity ? enough_ - interval.seconds : 0;
    return least <=
           interval.seconds + std::max(search::kTuning.step_bound.narrow_far * far,
                                       search::kTuning.step_bound.narrow * interval.seconds);
  }

  double seconds_of(const std::vector<Label>& stages, OnceRange once) const {
    PathSchedule schedule = costs_.schedule();
    schedule.once = once.least;
    PathSums sums;
    const int count = static_cast<int>(stages.size());
    for (int s = count - 1; s >= 0; --s) {
      const int first = s == 0 ? 0 : stages[s - 1].last + 1, part = stages[s].part;
      const int after = std::min(count - 1 - s, costs_.counts() - 1);
      const double transfer =
          s + 1 < count ? costs_.transfer(stages[s].last + 1, part, stages[s + 1].part) : 0;
      sums = schedule.with_stage(
          sums, costs_.runs(first, stages[s].last, part, costs_.kind_of_memory(after), once),
          transfer, schedule.in_flight(after));
    }
    return sums.step;
  }

  const StepBoundProblem& problem_;
  const StageCosts& costs_;
  const double enough_;
  LabelProgram program_;
  std::priority_queue<OnceInterval> open_;
  std::vector<Label> best_;  ///< of a wider interval than those that are open
  double growth_ = search::kTuning.step_bound.growth;
  bool ended_ = false;
};

/// Costs of the submeshes on which some range may take less than `enough`.
StageCosts costs_in_use(const StepBoundProblem& problem) {
  std::vector<int> all(problem.submeshes.size()), used;
  std::iota(all.begin(), all.end(), 0);
  StageCosts costs(problem, all);
  const OnceRange any{0, costs.most_once()};
  std::vector<bool> is_used(all.size());
  costs.for_each_range([&](int first, int last, int m) {
    if (costs.kinds_of_memory() > 0 && !is_used[m])
      is_used[m] = costs.runs(first, last, m, 0, any).alone < problem.enough;
  });
  std::ranges::copy_if(all, std::back_inserter(used), [&](int m) { return is_used[m]; });
  if (used.size() == all.size()) return costs;
  return {problem, std::move(used)};
}

}  // namespace

StepBound step_bound(const StepBoundProblem& problem) {
  invariant(problem.costs.layers > 0 && problem.micro_batches > 0,
            "step bound: {} layers, {} micro-batches", problem.costs.layers, problem.micro_batches);
  invariant(problem.costs.submeshes == static_cast<int>(problem.submeshes.size()),
            "step bound: costs of {} submeshes, but {} submeshes", problem.costs.submeshes,
            problem.submeshes.size());
  if (problem.is_over && problem.is_over()) return {};
  const StageCosts costs = costs_in_use(problem);
  StepBound least{problem.enough, {}};
  std::vector<Submesh> submeshes;
  for (int part = 0; part < costs.parts(); ++part) submeshes.push_back(costs.submesh(part));
  if (submeshes.empty()) return least;
  for (const Tiling& tiling : tilings(problem.cluster, submeshes)) {
    if (tiling.full < 0) continue;
    StepBound bound = StepBoundSearch(problem, costs, tiling, least.seconds).run();
    if (bound.seconds < least.seconds) least = std::move(bound);
  }
  return least;
}

}  // namespace alpa::inter_op
