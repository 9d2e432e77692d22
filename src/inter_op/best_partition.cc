// src/inter_op/best_partition.cc — stages with the least sum + (B - 1) × bottleneck
//
// For a bound T on the seconds of every stage and transfer, a dynamic program finds the least sum
// S(T), which does not increase with T. The least S(T) + (B - 1)·T over the values T that occur is
// exact. Alpa visits them in ascending order. Here an interval of them is left out if S(above it) +
// (B - 1)·(its least value) is no better than the best found; otherwise it is halved.
#include "src/inter_op/best_partition.h"

#include <algorithm>
#include <queue>

#include "src/base/infinity.h"
#include "src/inter_op/partition_tables.h"
#include "src/inter_op/reach.h"
#include "src/inter_op/tiling.h"
#include "src/inter_op/tuning.h"

namespace alpa::inter_op {

namespace {

/// So many equal seconds are no more than one times their number.
constexpr double kRounded = 1 + 1e-9;

/// Least sums per state of the tiling; unused: all infinite, and `sums` is not set.
struct Row {
  std::vector<double> sums;
  bool used = false;

  void use(int states) {
    if (!used) sums.assign(states, kInfinity);
    used = true;
  }
};

/// A stage of the best way to have the layers from `first` on.
struct Choice {
  int first = 0, last = 0, submesh = 0;
  const PartitionOption* option = nullptr;
  double transfer = 0;  ///< from the stage before
  int state = 0;        ///< of the tiling, after the stages that follow
  int after = 0;        ///< stages that follow, counted up to most_counted
};

/// The dynamic program, from the last layer to the first. It counts the stages to the end up to
/// `most_counted`: as far as memory and waits distinguish them, or 0 for a relaxation in which
/// every stage has the memory of the last one and none waits.
class PartitionProgram {
 public:
  PartitionProgram(const PartitionTables& tables, const Tiling& tiling, int most_counted)
      : tables_(tables),
        tiling_(tiling),
        befores_(tables.transfers ? tables.submeshes : 1),
        counts_(most_counted + 1),
        rows_(static_cast<std::size_t>(tables.layers + 1) * counts_ * befores_),
        begun_(static_cast<std::size_t>(counts_) * tables.submeshes),
        least_(tiling.states) {}

  /// The stages with the least sum, none longer than `bound`; none if there are none.
  std::vector<Choice> solve(double bound) {
    bound_ = bound;
    in_reach_ = states_in_reach(tables_, tiling_, bound);
    if (in_reach_[0].empty()) return {};
    for (Row& row : rows_) row.used = false;
    for (int before = 0; before < befores_; ++before) {
      row(tables_.layers, 0, before).use(tiling_.states);
      row(tables_.layers, 0, before).sums[0] = 0;
    }
    for (int first = tables_.layers - 1; first > 0; --first) {
      begin_stages(first);
      add_transfers(first);
    }
    return best_path();
  }

 private:
  /// Least sums of the layers from `first` on, the transfer from the stage before included.
  Row& row(int first, int count, int before) {
    return rows_[(static_cast<std::size_t>(first) * counts_ + count) * befores_ +
                 (befores_ == 1 ? 0 : before)];
  }
  /// Least sums of the layers from the current one on, which begin with a stage on submesh m.
  Row& begun(int count, int m) {
    return begun_[static_cast<std::size_t>(count) * tables_.submeshes + m];
  }
  int count_with_stage(int count) const { return std::min(count + 1, counts_ - 1); }

  void begin_stages(int first) {
    for (Row& row : begun_) row.used = false;
    for (int m = 0; m < tables_.submeshes; ++m) {
      if (tiling_.steps[m].empty()) continue;
      for (int last = first; last < tables_.layers; ++last) {
        const PartitionOption* cheapest = tables_.option(first, last, m, 0);
        if (!cheapest || cheapest->seconds > bound_) continue;
        for (int count = 0; count < counts_; ++count) add_stage(first, last, m, count);
      }
      drop_dominated(first, [&](int count) -> Row& { return begun(count, m); });
    }
  }

  void add_stage(int first, int last, int m, int count) {
    const Row& from = row(last + 1, count, m);
    if (!from.used) return;
    const PartitionOption* option = tables_.option(first, last, m, count);
    if (!option || option->seconds > bound_) return;
    Row& to = begun(count_with_stage(count), m);
    to.use(tiling_.states);
    const double most = most_seconds(count);
    for (const TilingStep& step : tiling_.steps[m])
      visit_step(step, in_reach_[last + 1], in_reach_[first],
                 [&](int source, int target, int states) {
                   for (int i = 0; i < states; ++i) {
                     const double sum = option->seconds + from.sums[source + i];
                     double& least = to.sums[target + i];
                     least = std::min(least, sum <= most ? sum : kInfinity);
                   }
                 });
  }

  bool waits() const { return counts_ > 1 && !tables_.in_flight.empty(); }
  /// That a micro-batch may take from a stage with so many after it to the end.
  double most_seconds(int after) const {
    return waits() ? bound_ * kRounded * tables_.in_flight[after] : kInfinity;
  }

  void add_transfers(int first) {
    for (int before = 0; before < befores_; ++before) {
      for (int count = 0; count < counts_; ++count) {
        Row& to = row(first, count, before);
        for (int m = 0; m < tables_.submeshes; ++m) {
          const Row& from = begun(count, m);
          const double seconds = tables_.transfer_seconds(first, before, m);
          if (!from.used || seconds > bound_) continue;
          to.use(tiling_.states);
          for (int i = in_reach_[first].begin; i < in_reach_[first].end; ++i)
            to.sums[i] = std::min(to.sums[i], seconds + from.sums[i]);
        }
      }
      drop_dominated(first, [&](int count) -> Row& { return row(first, count, before); });
    }
  }

  /// A state with more stages to the end and no smaller sum is never better: with more stages after
  /// them, earlier stages have no more options. If they have more micro-batches in flight, the sum
  /// must be larger by what these may take. (From one number of stages to the next, fewer and fewer
  /// are added.)
  template <class RowOf>
  void drop_dominated(int first, const RowOf& row_of) {
    if (counts_ == 1) return;
    const auto [begin, end] = in_reach_[first];
    std::fill(least_.begin() + begin, least_.begin() + end, kInfinity);
    for (int count = 0; count < counts_; ++count) {
      Row& row = row_of(count);
      if (!row.used) continue;
      row.used = false;
      const double more = waits() ? most_seconds(count) : 0;
      for (int i = begin; i < end; ++i) {
        if (row.sums[i] < kInfinity && row.sums[i] - more < least_[i]) {
          least_[i] = row.sums[i] - more;
          row.used = true;
        } else {
          row.sums[i] = kInfinity;
        }
      }
    }
  }

  std::vector<Choice> best_path() {
    std::vector<Choice> path;
    for (int first = 0; first < tables_.layers; first = path.back().last + 1) {
      Choice best;
      double least = kInfinity;
      for (int m = 0; m < tables_.submeshes; ++m)
        for_each_choice(first, path, m, [&](const Choice& choice, double rest) {
          if (rest >= least) return;
          least = rest;
          best = choice;
        });
      if (!best.option) return {};
      path.push_back(best);
    }
    return path;
  }

  /// Calls visit(choice, least sum from here on) for the stages on submesh m that may begin at
  /// `first` after the last of `path`.
  template <class Visit>
  void for_each_choice(int first, const std::vector<Choice>& path, int m, const Visit& visit) {
    const int state = path.empty() ? tiling_.full : path.back().state;
    const double transfer =
        path.empty() ? 0 : tables_.transfer_seconds(first, path.back().submesh, m);
    if (transfer > bound_) return;
    for (int count = 0; count < counts_; ++count) {
      if (!path.empty() && count_with_stage(count) != path.back().after) continue;
      for (int last = first; last < tables_.layers; ++last) {
        const PartitionOption* option = tables_.option(first, last, m, count);
        if (!option || option->seconds > bound_) continue;
        const Row& rest = row(last + 1, count, m);
        if (!rest.used) continue;
        for (const TilingStep& step : tiling_.steps[m]) {
          if (state < step.to || state >= step.to + step.count) continue;
          const int from = step.from + state - step.to;
          if (option->seconds + rest.sums[from] > most_seconds(count)) continue;
          visit({first, last, m, option, transfer, from, count},
                transfer + (option->seconds + rest.sums[from]));
        }
      }
    }
  }

  const PartitionTables& tables_;
  const Tiling& tiling_;
  int befores_;             ///< submeshes that a row distinguishes before its layers
  int counts_;              ///< numbers of stages that a row distinguishes in its layers
  std::vector<Row> rows_;   ///< per (first layer, stages, submesh before)
  std::vector<Row> begun_;  ///< per (stages, submesh)
  double bound_ = 0;
  std::vector<StateRange> in_reach_;  ///< under the bound, per layer
  std::vector<double> least_;         ///< scratch, per state
};

/// What the stages wait for micro-batches in flight, per micro-batch; 0 if that is not counted.
double most_waited(const std::vector<Choice>& path, const std::vector<int>& in_flight) {
  double most = 0, to_end = 0;
  std::size_t after = 0;
  for (auto at = path.rbegin(); at != path.rend() && !in_flight.empty(); ++at, ++after) {
    to_end += at->option->seconds;
    most = std::max(most, to_end / in_flight[std::min(after, in_flight.size() - 1)]);
    to_end += at->transfer;
  }
  return most;
}

PartitionResult result_of(const PartitionProblem& problem, const PartitionTables& tables,
                          const std::vector<Choice>& path) {
  PartitionResult result;
  for (const Choice& choice : path) {
    result.partition.stages.push_back({choice.first, choice.last, problem.submeshes[choice.submesh],
                                       choice.option->configuration});
    result.sum += choice.transfer + choice.option->seconds;
    result.bottleneck = std::max({result.bottleneck, choice.transfer, choice.option->seconds});
  }
  result.bottleneck = std::max(result.bottleneck, most_waited(path, tables.in_flight));
  result.seconds = result.sum + (problem.micro_batches - 1) * result.bottleneck;
  return result;
}

/// Whether memory suffices for the stages of a relaxed program, and they wait no longer than the
/// bound.
bool fits(const std::vector<Choice>& path, const PartitionTables& tables, double bound) {
  const int stages = static_cast<int>(path.size());
  for (int s = 0; s < stages; ++s)
    if (path[s].option->most_after < stages - s - 1) return false;
  return most_waited(path, tables.in_flight) <= bound * kRounded;
}

/// Bounds [begin, end) for which no program has been solved.
struct Interval {
  std::size_t begin = 0, end = 0;
  double sum = 0;      ///< at least this for all of them
  double seconds = 0;  ///< so at least this

  bool operator<(const Interval& other) const { return seconds > other.seconds; }
};

/// Searches the lists of submeshes of one tiling for something better than `best`.
class BoundSearch {
 public:
  BoundSearch(const PartitionProblem& problem, const PartitionTables& tables, const Tiling& tiling,
              PartitionResult& best)
      : problem_(problem),
        tables_(tables),
        tiling_(tiling),
        relaxed_(tables, tiling, 0),
        program_(tables, tiling, tables.most_counted),
        best_(best) {}

  void run() {
    if (tables_.bounds.empty()) return;
    solve(0, tables_.bounds.size(), first_bound(), 0);
    while (!open_.empty() && !(problem_.is_over && problem_.is_over())) {
      Interval interval = open_.top();
      open_.pop();
      interval.end = end_of_better(interval);
      if (interval.begin < interval.end)
        solve(interval.begin, interval.end, (interval.begin + interval.end) / 2, interval.sum);
    }
  }

 private:
  double seconds(double sum, double bound) const {
    return sum + (problem_.micro_batches - 1) * bound;
  }

  /// A little above the least one for which the devices suffice: programs of larger ones take far
  /// longer, as more states are in reach, and the best stages are mostly found near it.
  std::size_t first_bound() const {
    const std::vector<double>& bounds = tables_.bounds;
    const auto least = std::partition_point(bounds.begin(), bounds.end(), [&](double bound) {
      return states_in_reach(tables_, tiling_, bound).front().empty();
    });
    if (least == bounds.end()) return bounds.size() - 1;
    const auto first =
        std::upper_bound(least, bounds.end(), *least * kTuning.partition.first_bound);
    return static_cast<std::size_t>(first - bounds.begin()) - 1;
  }

  /// The end of those bounds that may have something better than the best.
  std::size_t end_of_better(const Interval& interval) const {
    const auto begin = tables_.bounds.begin();
    const auto end = std::partition_point(
        begin + interval.begin, begin + interval.end,
        [&](double bound) { return seconds(interval.sum, bound) < best_.seconds; });
    return static_cast<std::size_t>(end - begin);
  }

  void open(std::size_t begin, std::size_t end, double sum) {
    if (begin == end) return;
    const double least = seconds(sum, tables_.bounds[begin]);
    if (least < best_.seconds) open_.push({begin, end, sum, least});
  }

  /// Solves the program of bound `middle`, and opens what is left on both sides of it. The sums
  /// of the interval are at least `sum`. If the relaxed program fits memory, it is the solution; if
  /// not, its sum is a bound that often spares the other program.
  void solve(std::size_t begin, std::size_t end, std::size_t middle, double sum) {
    open(middle + 1, end, sum);
    std::vector<Choice> path = solve(relaxed_, middle);
    if (path.empty()) return;
    if (!fits(path, tables_, tables_.bounds[middle])) {
      const double least = result_of(problem_, tables_, path).sum;
      const std::size_t better = end_of_better({begin, middle + 1, least, 0});
      if (better <= middle) return open(begin, better, least);
      path = solve(program_, middle);
    }
    if (path.empty()) return;
    PartitionResult result = result_of(problem_, tables_, path);
    const double least = result.sum, bottleneck = result.bottleneck;
    result.programs_solved = best_.programs_solved;
    if (result.seconds < best_.seconds) best_ = std::move(result);
    // Bounds from this bottleneck to `middle` have the same sum.
    const auto at = std::lower_bound(tables_.bounds.begin(), tables_.bounds.begin() + middle,
                                     bottleneck);  // which may exceed this bound by rounding
    open(begin, static_cast<std::size_t>(at - tables_.bounds.begin()), least);
  }

  std::vector<Choice> solve(PartitionProgram& program, std::size_t bound) {
    ++best_.programs_solved;
    return program.solve(tables_.bounds[bound]);
  }

  const PartitionProblem& problem_;
  const PartitionTables& tables_;
  const Tiling& tiling_;
  PartitionProgram relaxed_, program_;
  PartitionResult& best_;
  std::priority_queue<Interval> open_;
};

}  // namespace

std::optional<PartitionResult> best_partition(const PartitionProblem& problem) {
  const PartitionTables tables = partition_tables(problem);
  PartitionResult best;
  best.seconds = kInfinity;
  for (const Tiling& tiling : tilings(problem.cluster, problem.submeshes))
    if (tiling.full >= 0) BoundSearch(problem, tables, tiling, best).run();
  if (best.seconds == kInfinity) return std::nullopt;
  best.lower_bound = problem.waits_in_flight ? best.seconds / (1 + kBoundStep) : best.seconds;
  return best;
}

}  // namespace alpa::inter_op
