// src/inter_op/schedule_bound.cc — the least that a schedule of any stages takes
//
// A dynamic program per interval of T, the seconds of the slowest stage: from the last layer to the
// first, stages behind the slowest one, that one, and stages before it. The interval of the least
// bound is halved until the bound suffices.
//
// What runs once per step: with u seconds of it at stage s, T counts u / B, and the step ends u
// after its last run. Other stages may have as much, so their runs take their seconds less u / B.
//
// What stages wait: to show that all take at least E seconds, partitions are left out whose
// micro-batches in flight at some stage alone take as long.
#include "src/inter_op/schedule_bound.h"

#include <algorithm>
#include <queue>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/inter_op/partition_tables.h"
#include "src/inter_op/tiling.h"
#include "src/inter_op/tuning.h"

namespace alpa::inter_op {
namespace {

/// Intervals of the slowest stage's seconds are not halved below this part of them.
constexpr double kNarrow = 1e-3;

/// What the schedule makes of the stages beside the slowest one.
struct Weights {
  double before = 1;   ///< of seconds before it
  double behind = 1;   ///< of seconds behind it
  double hidden = 0;   ///< per stage behind it, of the slowest stage's seconds
  bool waits = false;  ///< whether stages wait for micro-batches in flight
};

/// `most_stages`: that there can be.
Weights weights_of(ScheduleKind schedule, int most_stages, int micro_batches) {
  switch (schedule) {
    case ScheduleKind::gpipe: return {1, 1, 0};
    case ScheduleKind::one_f_one_b:
    case ScheduleKind::one_f_one_b_overlap: {
      const int ahead = schedule == ScheduleKind::one_f_one_b ? 1 : 2;  // per stage behind
      // Both waits are apart if the last micro-batch begins after the first one has come back.
      if (micro_batches > ahead * most_stages) return {1, 2, static_cast<double>(ahead), true};
      return {1, 1, ahead / 2.0, true};
    }
    case ScheduleKind::inference:
    case ScheduleKind::zero_bubble:
    case ScheduleKind::interleaved_one_f_one_b: return {0, 0, 0};
  }
  bug("schedule {} has no bound", static_cast<int>(schedule));
}

/// Least sums of the layers from one on, per state of the tiling.
struct Sums {
  explicit Sums(int states) : all(states), behind(states), with_slowest(states) { reset(); }
  void reset() {
    for (std::vector<double>* sums : {&all, &behind, &with_slowest})
      std::fill(sums->begin(), sums->end(), kInfinity);
    used = false;
  }

  std::vector<double> all;           ///< seconds of a micro-batch there and back
  std::vector<double> behind;        ///< weighed, all of them behind the slowest stage
  std::vector<double> with_slowest;  ///< weighed, the slowest stage among them
  bool used = false;
};

/// Counts the stages to the end up to `most_counted`, as far as waits distinguish them.
class BoundProgram {
 public:
  BoundProgram(const ScheduleBoundProblem& problem, const PartitionTables& tables,
               const Tiling& tiling, int most_counted)
      : problem_(problem),
        tables_(tables),
        tiling_(tiling),
        most_stages_(std::min(tables.layers, problem.stages.cluster.num_devices())),
        weights_(weights_of(problem.schedule, most_stages_, problem.stages.micro_batches)),
        befores_(tables.transfers ? tables.submeshes : 1),
        counts_(most_counted + 1),
        rows_(static_cast<std::size_t>(tables.layers + 1) * counts_ * befores_,
              Sums(tiling.states)),
        begun_(counts_, Sums(tiling.states)) {}

  /// Seconds of the step, at least, where the slowest stage takes from `least` to `most` seconds
  /// and nothing waits for `enough`; infinite: there are no such stages.
  double solve(double least, double most, double enough) {
    least_ = least, most_ = most, enough_ = enough;
    once_ = most_once();
    for (Sums& sums : rows_) sums.reset();
    for (int before = 0; before < befores_; ++before) {
      Sums& end = row(tables_.layers, 0, before);
      end.all[0] = end.behind[0] = 0;
      end.used = true;
    }
    double sum = kInfinity;
    for (int first = tables_.layers - 1; first >= 0; --first)
      for (int m = 0; m < tables_.submeshes; ++m) {
        begin_stages(first, m);
        for (int count = 0; count < counts_; ++count) {
          if (first == 0) sum = std::min(sum, begun_[count].with_slowest[tiling_.full]);
          for (int before = 0; first > 0 && before < befores_ && begun_[count].used; ++before)
            pass_on(begun_[count], tables_.transfer_seconds(first, before, m),
                    row(first, count, before));
        }
      }
    const int micro_batches = problem_.stages.micro_batches - (problem_.hides_gradients ? 1 : 0);
    return micro_batches * least + sum;
  }

 private:
  Sums& row(int first, int count, int before) {
    return rows_[(static_cast<std::size_t>(first) * counts_ + count) * befores_ +
                 (befores_ == 1 ? 0 : before)];
  }

  void pass_on(const Sums& from, double seconds, Sums& to) const {
    const auto add = [&](const std::vector<double>& sums, double more, std::vector<double>& least) {
      for (int i = 0; i < tiling_.states; ++i) least[i] = std::min(least[i], sums[i] + more);
    };
    add(from.all, seconds, to.all);
    add(from.behind, weights_.behind * seconds, to.behind);
    add(from.with_slowest, weights_.before * seconds, to.with_slowest);
    to.used = true;
  }

  /// Of the layers from `first` on, which begin with a stage on submesh m.
  void begin_stages(int first, int m) {
    for (Sums& sums : begun_) sums.reset();
    for (int last = first; last < tables_.layers && !tiling_.steps[m].empty(); ++last)
      for (int after = 0; after < counts_; ++after) {
        const Sums& rest = row(last + 1, after, m);
        const PartitionOption* option = tables_.option(first, last, m, after);
        if (!rest.used || !option || option->seconds > most_) continue;
        const double runs = least_runs(first, last, m, option->seconds);
        Sums& to = begun_[std::min(after + 1, counts_ - 1)];
        for (const TilingStep& step : tiling_.steps[m])
          for (int i = 0; i < step.count; ++i)
            if (rest.all[step.from + i] + runs <= most_to_end(after, runs))
              add_stage(rest, step.from + i, runs, option->seconds >= least_, to, step.to + i);
      }
  }

  void add_stage(const Sums& rest, int from, double runs, bool may_be_slowest, Sums& sums,
                 int to) const {
    sums.used = true;
    const auto least = [](double& sum, double other) { sum = std::min(sum, other); };
    least(sums.all[to], rest.all[from] + runs);
    least(sums.behind[to], rest.behind[from] + weights_.behind * runs - weights_.hidden * most_);
    least(sums.with_slowest[to], rest.with_slowest[from] + weights_.before * runs);
    if (may_be_slowest) least(sums.with_slowest[to], std::max(0.0, rest.behind[from]));
  }

  /// Seconds that a micro-batch may take from a stage, of `runs` seconds, to the last one and back:
  /// n in flight take them once per round of n, and the last ones run one after the other.
  double most_to_end(int after, double runs) const {
    if (counts_ == 1 || !weights_.waits) return kInfinity;
    const int in_flight = tables_.in_flight[after];
    const int rounds = (problem_.stages.micro_batches + in_flight - 1) / in_flight;
    return (enough_ - (in_flight - 1) * runs / 2) / rounds;
  }

  /// Of forward and backward of a micro-batch, in a stage that is not the slowest one.
  double least_runs(int first, int last, int m, double seconds) const {
    const double least = std::min(seconds, problem_.run_seconds(first, last, m));
    return std::max(least, seconds - once_);
  }

  /// Seconds per micro-batch that the slowest stage can have of what runs once per step. Infinite:
  /// others may have more, as the step is not the longer for it.
  double most_once() const {
    if (problem_.hides_gradients ||
        weights_.behind * (most_stages_ - 1) > problem_.stages.micro_batches)
      return kInfinity;
    double most = 0;
    for (int first = 0; first < tables_.layers; ++first)
      for (int last = first; last < tables_.layers; ++last)
        for (int m = 0; m < tables_.submeshes; ++m)
          if (const PartitionOption* option = tables_.option(first, last, m, 0);
              option && option->seconds >= least_ && option->seconds <= most_)
            most = std::max(most, option->seconds - problem_.run_seconds(first, last, m));
    return most;
  }

  const ScheduleBoundProblem& problem_;
  const PartitionTables& tables_;
  const Tiling& tiling_;
  const int most_stages_;
  const Weights weights_;
  const int befores_;        ///< submeshes that a row distinguishes before its layers
  const int counts_;         ///< numbers of stages that a row distinguishes in its layers
  std::vector<Sums> rows_;   ///< per (first layer, stages, submesh before)
  std::vector<Sums> begun_;  ///< per stages
  double least_ = 0, most_ = 0, enough_ = 0, once_ = 0;
};

/// Seconds of the slowest stage: from those at `begin` to those at `end` - 1.
struct Interval {
  std::size_t begin = 0, end = 0;
  double seconds = 0;  ///< of the step, at least

  bool operator<(const Interval& other) const { return seconds > other.seconds; }
};

/// The distinct seconds of stages, ascending.
std::vector<double> seconds_of_stages(const PartitionTables& tables) {
  std::vector<double> seconds;
  for (const PartitionOption& option : tables.options) seconds.push_back(option.seconds);
  std::sort(seconds.begin(), seconds.end());
  seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
  return seconds;
}

/// Searches the lists of submeshes of one tiling for the least seconds.
class BoundSearch {
 public:
  BoundSearch(const ScheduleBoundProblem& problem, const PartitionTables& tables,
              const Tiling& tiling)
      : problem_(problem),
        tables_(tables),
        slowest_(seconds_of_stages(tables)),
        program_(problem, tables, tiling, most_counted(tables, tiling)) {}

  /// The most E up to `enough` that all stages are found to take.
  double run() {
    double proven = std::min(bound(problem_.enough), problem_.enough);
    double refuted = problem_.enough;  // not found
    for (int step = 0; step < kSteps && proven < refuted * (1 - kNarrow) && !is_over(); ++step) {
      const double middle = (proven + refuted) / 2;
      const double found = bound(middle);
      (found >= middle ? proven : refuted) = middle;
      proven = std::max(proven, std::min(found, middle));
    }
    return proven;
  }

 private:
  static constexpr int kSteps = 5;

  /// Waits are counted where that takes little.
  static int most_counted(const PartitionTables& tables, const Tiling& tiling) {
    const double cells = static_cast<double>(tables.layers) * tables.submeshes * tables.submeshes *
                         tiling.states * (tables.most_counted + 1);
    return cells <= kTuning.schedule_bound.most_cells ? tables.most_counted : 0;
  }

  bool is_over() const {
    return programs_ >= kTuning.schedule_bound.most_programs ||
           (problem_.stages.is_over && problem_.stages.is_over());
  }

  /// Seconds of those stages that nothing waits `enough` for.
  double bound(double enough) {
    if (slowest_.empty()) return kInfinity;
    std::priority_queue<Interval> open;
    const auto solve = [&](std::size_t begin, std::size_t end) {
      ++programs_;
      open.push({begin, end, program_.solve(slowest_[begin], slowest_[end - 1], enough)});
    };
    solve(0, slowest_.size());
    while (open.top().seconds < enough && !is_over()) {
      const Interval least = open.top();
      const double from = slowest_[least.begin], to = slowest_[least.end - 1];
      if (to <= from * (1 + kNarrow)) break;
      open.pop();
      // By seconds, not by number: most ranges take far more than the slowest stage does.
      const auto cut = std::upper_bound(slowest_.begin(), slowest_.end(), (from + to) / 2);
      solve(least.begin, cut - slowest_.begin()), solve(cut - slowest_.begin(), least.end);
    }
    return open.top().seconds;
  }

  const ScheduleBoundProblem& problem_;
  const PartitionTables& tables_;
  const std::vector<double> slowest_;  ///< seconds that the slowest stage may have, ascending
  BoundProgram program_;
  int programs_ = 0;
};

}  // namespace

double schedule_bound(const ScheduleBoundProblem& problem) {
  PartitionProblem stages = problem.stages;
  stages.waits_in_flight = true;
  const PartitionTables tables = partition_tables(stages);
  double bound = kInfinity;
  for (const Tiling& tiling : tilings(stages.cluster, stages.submeshes))
    if (tiling.full >= 0) bound = std::min(bound, BoundSearch(problem, tables, tiling).run());
  return bound;
}

}  // namespace alpa::inter_op
