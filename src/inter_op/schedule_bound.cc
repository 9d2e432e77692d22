// src/inter_op/schedule_bound.cc — the least that a schedule of any stages takes
//
// A dynamic program per interval of T, the seconds of the slowest stage: from the last layer to the
// first, stages behind the slowest one, that one, and stages before it. The interval of the least
// bound is halved until the bound suffices.
//
// What runs once per step: with u seconds of it at stage s, T counts u / B, and the step ends u
// after its last run. Other stages may have as much, so their runs take their seconds less u / B.
// If one has U more, the step is U longer, and a sum of other stages' runs at most a·U / B shorter,
// where a is how often the sum counts them.
//
// What stages wait: to show that all take at least E seconds, partitions are left out whose
// micro-batches in flight at some stage alone take as long.
#include "src/inter_op/schedule_bound.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/inter_op/partition_tables.h"
#include "src/inter_op/reach.h"
#include "src/inter_op/step_bound.h"
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
  explicit Sums(int states)
      : all(states, kInfinity), behind(states, kInfinity), with_slowest(states, kInfinity) {}
  void reset() {
    if (!std::exchange(used, false)) return;
    for (std::vector<double>* sums : {&all, &behind, &with_slowest})
      std::fill(sums->begin(), sums->end(), kInfinity);
  }

  std::vector<double> all;           ///< seconds of a micro-batch there and back
  std::vector<double> behind;        ///< weighed, all of them behind the slowest stage
  std::vector<double> with_slowest;  ///< weighed, the slowest stage among them
  bool used = false;
};

/// Runs of the slowest stage that the step takes at least.
int counted_runs(const ScheduleBoundProblem& problem) {
  return problem.stages.micro_batches - (problem.hides_gradients ? 1 : 0);
}

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
        runs_(tables.range(tables.layers, 0, 0)),
        rows_(static_cast<std::size_t>(tables.layers + 1) * counts_ * befores_,
              Sums(tiling.states)),
        begun_(counts_, Sums(tiling.states)) {
    for_each_range([&](int first, int last, int m) {
      runs_[tables_.range(first, last, m)] = problem_.runs(first, last, m);
    });
  }

  /// Seconds of the step, at least, where the slowest stage takes from `least` to `most` seconds
  /// and nothing waits for `enough`; infinite: there are no such stages.
  double solve(double least, double most, double enough) {
    least_ = least, most_ = most, enough_ = enough;
    once_ = most_once();
    in_reach_ = states_in_reach(tables_, tiling_, most);
    for (Sums& sums : rows_) sums.reset();
    if (in_reach_[0].empty()) return kInfinity;
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
            pass_on(in_reach_[first], begun_[count], tables_.transfer_seconds(first, before, m),
                    row(first, count, before));
        }
      }
    return counted_runs(problem_) * least + sum;
  }

  /// The stages that the last answer is of, if it is finite.
  StagePartition stages() {
    StagePartition partition;
    Place place{.state = tiling_.full};
    while (place.first < tables_.layers) {
      Place best;
      double least = kInfinity;
      for (int m = 0; m < tables_.submeshes; ++m)
        for_each_stage(place, m, [&](const Place& next, double seconds) {
          if (seconds < least) least = seconds, best = next;
        });
      if (least == kInfinity) return {};
      partition.stages.push_back(
          {place.first, best.first - 1, problem_.stages.submeshes[best.before]});
      place = best;
    }
    return partition;
  }

 private:
  Sums& row(int first, int count, int before) {
    return rows_[(static_cast<std::size_t>(first) * counts_ + count) * befores_ +
                 (befores_ == 1 ? 0 : before)];
  }

  void pass_on(StateRange states, const Sums& from, double seconds, Sums& to) const {
    const auto add = [&](const std::vector<double>& sums, double more, std::vector<double>& least) {
      for (int i = states.begin; i < states.end; ++i) least[i] = std::min(least[i], sums[i] + more);
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
        const LeastRuns& parts = runs_[tables_.range(first, last, m)];
        const double runs = least_runs(parts, option->seconds);
        const StageTime stage{runs, std::max(parts.forward, parts.backward), after,
                              option->seconds >= least_};
        Sums& to = begun_[std::min(after + 1, counts_ - 1)];
        const double most = most_to_end(after, runs);
        for (const TilingStep& step : tiling_.steps[m])
          visit_step(step, in_reach_[last + 1], in_reach_[first],
                     [&](int from, int state, int states) {
                       for (int i = 0; i < states; ++i)
                         if (rest.all[from + i] + runs <= most)
                           add_stage(rest, from + i, stage, to, state + i);
                     });
      }
  }

  /// Where the stages before a layer have led to.
  struct Place {
    int first = 0;    ///< layer
    int before = -1;  ///< submesh of the stage before it
    int count = -1;   ///< stages to the end, as far as they are counted
    int state = 0;
    bool had_slowest = false;
  };

  /// Calls visit(place behind it, seconds from here on) for the stages on submesh m that may begin
  /// at `place`.
  template <class Visit>
  void for_each_stage(const Place& place, int m, const Visit& visit) {
    const double transfer =
        place.before < 0 ? 0 : tables_.transfer_seconds(place.first, place.before, m);
    for (int last = place.first; last < tables_.layers; ++last)
      for (int after = 0; after < counts_; ++after) {
        if (place.count >= 0 && std::min(after + 1, counts_ - 1) != place.count) continue;
        const Sums& rest = row(last + 1, after, m);
        const PartitionOption* option = tables_.option(place.first, last, m, after);
        if (!rest.used || !option || option->seconds > most_) continue;
        const LeastRuns& parts = runs_[tables_.range(place.first, last, m)];
        const double runs = least_runs(parts, option->seconds);
        const double longer = std::max(parts.forward, parts.backward);
        for (const TilingStep& step : tiling_.steps[m]) {
          if (place.state < step.to || place.state >= step.to + step.count) continue;
          const int from = step.from + place.state - step.to;
          if (rest.all[from] + runs > most_to_end(after, runs)) continue;
          Place next{last + 1, m, after, from, place.had_slowest};
          if (place.had_slowest) {
            visit(next, weights_.behind * (transfer + runs) + rest.behind[from]);
            continue;
          }
          visit(next, weights_.before * (transfer + runs) + rest.with_slowest[from]);
          next.had_slowest = true;
          if (option->seconds >= least_)
            visit(next, weights_.before * transfer +
                            waited(rest.all[from], rest.behind[from], longer, after));
        }
      }
  }

  struct StageTime {
    double runs = 0;    ///< seconds of forward and backward, at least
    double longer = 0;  ///< of these, of the longer one
    int after = 0;      ///< stages to the end, as far as they are counted
    bool may_be_slowest = false;
  };

  void add_stage(const Sums& rest, int from, const StageTime& stage, Sums& sums, int to) const {
    sums.used = true;
    const auto least = [](double& sum, double other) { sum = std::min(sum, other); };
    least(sums.all[to], rest.all[from] + stage.runs);
    least(sums.behind[to],
          rest.behind[from] + weights_.behind * stage.runs - weights_.hidden * most_);
    least(sums.with_slowest[to], rest.with_slowest[from] + weights_.before * stage.runs);
    if (stage.may_be_slowest)
      least(sums.with_slowest[to],
            waited(rest.all[from], rest.behind[from], stage.longer, stage.after));
  }

  bool counts_waits() const { return weights_.waits && counts_ > tables_.most_counted; }

  /// By the slowest stage for what is behind it. `longer`: the seconds of its longer run, at least.
  double waited(double all, double behind, double longer, int after) const {
    if (!counts_waits()) return std::max(0.0, behind);
    const int hidden = tables_.in_flight[after] - 1;  // runs of other micro-batches, at most
    const double shorter = std::min(most_ / 2, most_ - longer);
    const double once = std::max(0.0, all - hidden * shorter);
    return hidden + 1 < problem_.stages.micro_batches
               ? std::max(once, 2 * all - hidden * most_)  // for the first and for the last one
               : once;
  }

  /// Seconds that a micro-batch may take from a stage, of `runs` seconds, to the last one and back:
  /// n in flight take them once per round of n, and those of the last round run one after another.
  double most_to_end(int after, double runs) const {
    if (!counts_waits()) return kInfinity;
    const int micro_batches = problem_.stages.micro_batches, in_flight = tables_.in_flight[after];
    const int rounds = (micro_batches + in_flight - 1) / in_flight;
    const double last_ones = (micro_batches - (rounds - 1) * in_flight - 1) / 2.0;
    // Stages that have more to do once per step make the step longer, but their runs shorter.
    const int stages = after < tables_.most_counted ? after + 1 : most_stages_;
    const double counted = std::max(1.0, (rounds * stages + last_ones) / micro_batches);
    const double most = std::max(enough_, counted * (enough_ - micro_batches * once_));
    return (most - last_ones * runs) / rounds;
  }

  /// Of forward and backward of a micro-batch, in a stage that is not the slowest one.
  double least_runs(const LeastRuns& parts, double seconds) const {
    return std::max(std::min(seconds, parts.forward + parts.backward), seconds - once_);
  }

  /// Seconds per micro-batch that the slowest stage can have of what runs once per step. Infinite:
  /// others may have more, as the step is not the longer for it.
  double most_once() const {
    const int counted = weights_.waits ? 2 : 1;  // how often at most, see `waited`
    if (problem_.hides_gradients || counted * (most_stages_ - 1) > problem_.stages.micro_batches)
      return kInfinity;
    double most = 0;
    for_each_range([&](int first, int last, int m) {
      const PartitionOption* option = tables_.option(first, last, m, 0);
      if (!option || option->seconds < least_ || option->seconds > most_) return;
      const LeastRuns& parts = runs_[tables_.range(first, last, m)];
      most = std::max(most, option->seconds - parts.forward - parts.backward);
    });
    return most;
  }

  template <class Visit>
  void for_each_range(const Visit& visit) const {
    for (int first = 0; first < tables_.layers; ++first)
      for (int last = first; last < tables_.layers; ++last)
        for (int m = 0; m < tables_.submeshes; ++m) visit(first, last, m);
  }

  const ScheduleBoundProblem& problem_;
  const PartitionTables& tables_;
  const Tiling& tiling_;
  const int most_stages_;
  const Weights weights_;
  const int befores_;            ///< submeshes that a row distinguishes before its layers
  const int counts_;             ///< numbers of stages that a row distinguishes in its layers
  std::vector<LeastRuns> runs_;  ///< per range and submesh, as tables number them
  std::vector<Sums> rows_;       ///< per (first layer, stages, submesh before)
  std::vector<Sums> begun_;      ///< per stages
  double least_ = 0, most_ = 0, enough_ = 0, once_ = 0;
  std::vector<StateRange> in_reach_;  ///< with stages up to `most_`, per layer
};

/// Seconds of the slowest stage: from those at `begin` to those at `end` - 1.
struct ScheduleInterval {
  std::size_t begin = 0, end = 0;
  double seconds = 0;  ///< of the step, at least

  bool operator<(const ScheduleInterval& other) const { return seconds > other.seconds; }
};

/// Seconds that some stage takes at least: the devices share the least work of all layers.
double least_slowest(const ScheduleBoundProblem& problem, const PartitionTables& tables) {
  std::vector<double> work(tables.layers + 1, kInfinity);  // of the layers from one on
  work[tables.layers] = 0;
  for (int first = tables.layers - 1; first >= 0; --first)
    for (int last = first; last < tables.layers; ++last)
      for (int m = 0; m < tables.submeshes; ++m)
        if (const PartitionOption* option = tables.option(first, last, m, 0))
          work[first] =
              std::min(work[first], option->seconds * problem.stages.submeshes[m].num_devices() +
                                        work[last + 1]);
  return work[0] / problem.stages.cluster.num_devices();
}

/// The distinct seconds that the slowest stage may take, ascending.
std::vector<double> seconds_of_slowest(const ScheduleBoundProblem& problem,
                                       const PartitionTables& tables) {
  const double least = least_slowest(problem, tables) * (1 - 1e-9);
  std::vector<double> seconds;
  for (const PartitionOption& option : tables.options)
    if (option.seconds >= least) seconds.push_back(option.seconds);
  std::sort(seconds.begin(), seconds.end());
  seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
  return seconds;
}

/// Searches the lists of submeshes of one tiling for the least seconds.
class ScheduleBoundSearch {
 public:
  ScheduleBoundSearch(const ScheduleBoundProblem& problem, const PartitionTables& tables,
                      const Tiling& tiling)
      : problem_(problem),
        tables_(tables),
        tiling_(tiling),
        slowest_(seconds_of_slowest(problem, tables)),
        most_counted_(problem.counts_waits &&
                              cells(tables.most_counted) <= kTuning.schedule_bound.most_cells
                          ? tables.most_counted
                          : 0),
        most_programs_(std::clamp(kTuning.schedule_bound.work / cells(most_counted_),
                                  kTuning.schedule_bound.least_programs,
                                  kTuning.schedule_bound.most_programs)),
        program_(problem, tables, tiling, most_counted_) {}

  /// The most E up to `enough` that all stages are found to take, and stages that may take less
  /// than `enough`.
  ScheduleBound run() {
    StagePartition least;
    double proven = std::min(bound(problem_.enough, &least), problem_.enough);
    double refuted = problem_.enough;  // not found
    for (int step = 0; step < kSteps && proven < refuted * (1 - kNarrow) && !is_over(); ++step) {
      const double middle = (proven + refuted) / 2;
      const double found = bound(middle);
      (found >= middle ? proven : refuted) = middle;
      proven = std::max(proven, std::min(found, middle));
    }
    return {proven, least};
  }

 private:
  static constexpr int kSteps = 5;

  /// Of a program that counts so many stages to the end.
  double cells(int most_counted) const {
    return static_cast<double>(tables_.layers) * tables_.submeshes * tables_.submeshes *
           tiling_.states * (most_counted + 1);
  }

  /// A first look has time whenever it comes.
  bool is_over() const {
    if (programs_ >= most_programs_) return true;
    return programs_ * cells(most_counted_) > kTuning.schedule_bound.first_look &&
           problem_.stages.is_over && problem_.stages.is_over();
  }

  /// Seconds of those stages that nothing waits `enough` for; if they are less than that, `stages`
  /// are such ones.
  double bound(double enough, StagePartition* stages = nullptr) {
    // Slower ones alone take `enough`.
    const auto short_enough = std::partition_point(
        slowest_.begin(), slowest_.end(),
        [&](double seconds) { return counted_runs(problem_) * seconds < enough; });
    if (short_enough == slowest_.begin()) return slowest_.empty() ? kInfinity : enough;
    std::priority_queue<ScheduleInterval> open;
    const auto solve = [&](std::size_t begin, std::size_t end) {
      ++programs_;
      open.push({begin, end, program_.solve(slowest_[begin], slowest_[end - 1], enough)});
    };
    solve(0, short_enough - slowest_.begin());
    while (open.top().seconds < enough && !is_over()) {
      const ScheduleInterval least = open.top();
      const double from = slowest_[least.begin], to = slowest_[least.end - 1];
      if (to <= from * (1 + kNarrow)) break;
      open.pop();
      // By seconds, not by number: most ranges take far more than the slowest stage does.
      const auto cut = std::upper_bound(slowest_.begin(), slowest_.end(), (from + to) / 2);
      solve(least.begin, cut - slowest_.begin()), solve(cut - slowest_.begin(), least.end);
    }
    const ScheduleInterval& least = open.top();
    if (stages && least.seconds < enough) {
      program_.solve(slowest_[least.begin], slowest_[least.end - 1], enough);
      *stages = program_.stages();
    }
    return short_enough == slowest_.end() ? least.seconds : std::min(least.seconds, enough);
  }

  const ScheduleBoundProblem& problem_;
  const PartitionTables& tables_;
  const Tiling& tiling_;
  const std::vector<double> slowest_;  ///< seconds that the slowest stage may have, ascending
  const int most_counted_;  ///< stages to the end: waits are counted where that takes little
  const double most_programs_;
  BoundProgram program_;
  int programs_ = 0;
};

/// By the slowest stage and what surrounds it.
ScheduleBound bound_by_slowest(const ScheduleBoundProblem& problem) {
  PartitionProblem stages = problem.stages;
  stages.waits_in_flight = true;
  const PartitionTables tables = partition_tables(stages);
  ScheduleBound least{kInfinity, {}};
  for (const Tiling& tiling : tilings(stages.cluster, stages.submeshes)) {
    if (tiling.full < 0) continue;
    ScheduleBound bound = ScheduleBoundSearch(problem, tables, tiling).run();
    if (bound.seconds < least.seconds) least = std::move(bound);
  }
  return least;
}

StepBound bound_by_paths(const ScheduleBoundProblem& problem) {
  const PartitionProblem& stages = problem.stages;
  return step_bound({.cluster = stages.cluster,
                     .submeshes = stages.submeshes,
                     .costs = stages.costs,
                     .runs = problem.runs,
                     .micro_batches = stages.micro_batches,
                     .schedule = problem.schedule,
                     .in_flight = stages.in_flight,
                     .transfer_seconds = stages.transfer_seconds,
                     .hides_gradients = problem.hides_gradients,
                     .enough = problem.enough,
                     .is_over = stages.is_over});
}

}  // namespace

ScheduleBound schedule_bound(const ScheduleBoundProblem& problem) {
  StepBound paths = bound_by_paths(problem);
  if (paths.seconds >= problem.enough) return {paths.seconds, {}};
  ScheduleBound slowest = bound_by_slowest(problem);
  slowest.seconds = std::max(slowest.seconds, paths.seconds);
  if (!paths.stages.stages.empty()) slowest.least = std::move(paths.stages);
  return slowest;
}

}  // namespace alpa::inter_op
