// src/inter_op/step_bound.cc — labels of partitions into stages, from the last layer to the first
//
// Let U be the largest of what stages run once per step. A line t >= a - w·u bounds a micro-batch
// of a stage that has u <= U: so an interval of U bounds all stages. The step takes U more. The
// interval of the least bound is halved until its stages take hardly more.
//
// For an interval, all labels below a bound on the step are found. The bound grows from what is
// certain: a program that finds no stages proves it, and takes the less time the lower the bound.
#include "src/inter_op/step_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "alpa/base/error.h"
#include "src/inter_op/path_bound.h"
#include "src/inter_op/tiling.h"
#include "src/inter_op/tuning.h"

namespace alpa::inter_op {
namespace {

/// Of what stages run once per step, the largest: from u1 to u2 seconds.
struct OnceRange {
  double least = 0, most = 0;
};

/// A micro-batch takes at least `seconds` - `slope`·u.
struct Line {
  double seconds = 0, slope = 0;
};

/// A partition of the layers from one on.
struct Label {
  PathSums sums;
  int last = -1, part = -1;     ///< of its first stage
  int bucket = -1, label = -1;  ///< behind that
};

/// Costs of the submeshes in use, by what memory distinguishes.
class Costs {
 public:
  Costs(const StepBoundProblem& problem, std::vector<int> submeshes)
      : problem_(problem),
        schedule_{problem.schedule, problem.micro_batches},
        submeshes_(std::move(submeshes)),
        layers_(problem.costs.layers) {
    std::set<int> limits;
    for (const int most : problem.costs.max_in_flight)
      if (most > 0) limits.insert(most);
    limits_.assign(limits.begin(), limits.end());
    for (int after = 0; after < layers_; ++after) in_flight_.push_back(in_flight(after));
    const auto differ = [&](int a, int b) {
      return kind_of_memory(a) != kind_of_memory(b) ||
             (schedule_.waits_in_flight() && schedule_.in_flight(a) != schedule_.in_flight(b));
    };
    counts_ = layers_;
    while (counts_ > 1 && !differ(counts_ - 2, layers_ - 1)) --counts_;
    set_lines();
  }

  int layers() const { return layers_; }
  int parts() const { return static_cast<int>(submeshes_.size()); }
  const Submesh& submesh(int part) const { return problem_.submeshes[submeshes_[part]]; }
  int micro_batches() const { return problem_.micro_batches; }
  const PathSchedule& schedule() const { return schedule_; }
  /// Numbers of stages after a stage that are told apart.
  int counts() const { return counts_; }
  int kinds_of_memory() const { return static_cast<int>(limits_.size()); }
  /// At a stage with so many stages after it; kinds_of_memory(): nothing fits.
  int kind_of_memory(int after) const {
    const auto at = std::lower_bound(limits_.begin(), limits_.end(), in_flight_[after]);
    return static_cast<int>(at - limits_.begin());
  }
  double transfer(int layer, int before, int after) const {
    return problem_.transfer_seconds
               ? problem_.transfer_seconds(layer, submeshes_[before], submeshes_[after])
               : 0;
  }

  StagePartition partition(const std::vector<Label>& stages) const {
    StagePartition partition;
    int first = 0;
    for (const Label& of : stages) {
      partition.stages.push_back({first, of.last, submesh(of.part)});
      first = of.last + 1;
    }
    return partition;
  }

  bool is_known(const std::vector<Label>& stages) const {
    return !problem_.known.empty() && std::ranges::any_of(problem_.known, [&](const auto& known) {
      return have_equal_cuts(known, partition(stages));
    });
  }

  /// `alone` is infinite if the range does not fit.
  StageRuns runs(int first, int last, int part, int kind, OnceRange once) const {
    const std::size_t at = range(first, last, part);
    StageRuns runs{.forward = runs_[at].forward, .backward = runs_[at].backward};
    for_each_line(at, kind, [&](const Line& line) {
      const double at_least = line.seconds - line.slope * once.least,
                   at_most = line.seconds - line.slope * once.most;
      runs.most = std::max(runs.most, at_least);
      runs.least = std::max(runs.least, at_most);
      runs.alone = std::max(runs.alone, std::min(micro_batches() * at_least + once.least,
                                                 micro_batches() * at_most + once.most));
    });
    return runs;
  }

  /// More than this once per step makes no stage's runs shorter.
  double most_once() const {
    double most = 0;
    for_each_range([&](int first, int last, int part) {
      const std::size_t at = range(first, last, part);
      const double runs = runs_[at].forward + runs_[at].backward;
      for (int kind = 0; kind < kinds_of_memory(); ++kind)
        for_each_line(at, kind, [&](const Line& line) {
          if (line.slope > 0 && line.seconds < kInfinity)
            most = std::max(most, (line.seconds - runs) / line.slope);
        });
    });
    return most;
  }

  std::size_t ranges() const { return runs_.size(); }
  std::size_t range(int first, int last, int part) const {
    return (static_cast<std::size_t>(first) * layers_ + last) * parts() + part;
  }

  template <class Visit>
  void for_each_range(const Visit& visit) const {
    for (int first = 0; first < layers_; ++first)
      for (int last = first; last < layers_; ++last)
        for (int part = 0; part < parts(); ++part) visit(first, last, part);
  }

 private:
  int in_flight(int after) const {
    return problem_.in_flight ? problem_.in_flight(after) : schedule_.in_flight(after);
  }

  void set_lines() {
    runs_.resize(static_cast<std::size_t>(layers_) * layers_ * parts());
    lines_.resize(limits_.size() * ranges());
    for_each_range([&](int first, int last, int part) {
      const std::size_t at = range(first, last, part);
      runs_[at] = problem_.runs(first, last, submeshes_[part]);
      std::size_t line = at;
      for (const int limit : limits_) {
        lines_[line] = line_of_costs(first, last, part, limit);
        line += ranges();
      }
    });
  }

  Line line_of_costs(int first, int last, int part, int in_flight) const {
    const PartitionCosts& costs = problem_.costs;
    double whole = kInfinity;
    for (int c = 0; c < costs.configurations; ++c) {
      const std::size_t at = costs.index(first, last, submeshes_[part], c);
      if (costs.max_in_flight[at] >= in_flight) whole = std::min(whole, costs.seconds[at]);
    }
    // What hides is no longer than the last backward run, which has no forward run in it.
    const double share = 1.0 / micro_batches(), hidden = problem_.hides_gradients ? share : 0;
    return {(whole + hidden * runs_[range(first, last, part)].forward) / (1 + hidden),
            share / (1 + hidden)};
  }

  template <class Visit>
  void for_each_line(std::size_t range, int kind, const Visit& visit) const {
    visit(Line{runs_[range].forward + runs_[range].backward, 0});
    visit(lines_[kind * ranges() + range]);
  }

  const StepBoundProblem& problem_;
  const PathSchedule schedule_;
  const std::vector<int> submeshes_;  ///< per part, its number in the problem
  const int layers_;
  std::vector<int> limits_;     ///< of micro-batches in flight, ascending
  std::vector<int> in_flight_;  ///< per stages after, for memory
  int counts_ = 1;
  std::vector<LeastRuns> runs_;  ///< per range
  std::vector<Line> lines_;      ///< per kind of memory and range
};

/// Those that no label dominates.
struct Bucket {
  int state = 0, count = 0;
  std::vector<Label> labels;
};

struct Found {
  double seconds = kInfinity;
  std::vector<Label> stages;  ///< from the first layer on
  bool is_complete = true;    ///< false: the work ended before
};

/// The program of one tiling.
class LabelProgram {
 public:
  /// Asks `is_over`, with what is done so far, now and then.
  LabelProgram(const Costs& costs, const Tiling& tiling, std::function<bool(double work)> is_over)
      : costs_(costs), tiling_(tiling), is_over_(std::move(is_over)) {
    for (const std::vector<TilingStep>& steps : tiling.steps) {
      auto& next = next_.emplace_back(tiling.states);
      for (const TilingStep& step : steps)
        for (int i = 0; i < step.count; ++i) next[step.from + i].push_back(step.to + i);
    }
    set_transfers();
  }

  double work() const { return work_; }

  /// If no transfer depends on what is behind it by more seconds, labels do not tell it.
  void drop_small_differences(double seconds) {
    if (*std::max_element(slack_.begin(), slack_.end()) > seconds) return;
    for (auto row = transfers_.begin(); row != transfers_.end(); row += costs_.parts())
      std::fill_n(row, costs_.parts(), *std::min_element(row, row + costs_.parts()));
    std::fill(slack_.begin(), slack_.end(), 0);
  }

  /// For this interval: what no partition takes less than, found in little time.
  double quick_bound(OnceRange once, double below) {
    begin(once, below);
    const std::size_t all = rest(costs_.layers(), 0);
    return std::max(rest_alone_[all], with_rest({}, all));
  }

  /// The partition of the least bound for this interval, if it is less than `below`.
  Found solve(OnceRange once, double below) {
    begin(once, below);
    below_ = below;
    found_ = {};
    const int layers = costs_.layers();
    buckets_.assign(layers + 1, {}), index_.assign(layers + 1, {});
    buckets_[layers].push_back({0, 0, {Label{}}});
    for (int end = layers; end > 0 && !ended_; --end) {
      const auto candidates = candidates_before(end);
      for (int b = 0; b < static_cast<int>(buckets_[end].size()) && !ended_; ++b)
        extend(end, b, candidates);
      index_[end] = {};
    }
    found_.is_complete = !ended_;
    return std::move(found_);
  }

 private:
  struct Candidate {
    int first = 0, part = 0;
  };

  std::size_t rest(int layers, int state) const {
    return static_cast<std::size_t>(layers) * tiling_.states + state;
  }
  double transfer(int layer, int before, int after) const {
    return after < 0 ? 0
                     : transfers_[(static_cast<std::size_t>(layer) * costs_.parts() + before) *
                                      costs_.parts() +
                                  after];
  }
  double slack(int layer, int better, int worse) const {
    return slack_[(static_cast<std::size_t>(layer) * costs_.parts() + better) * costs_.parts() +
                  worse];
  }

  /// And how much longer than behind one part they may be behind another.
  void set_transfers() {
    const int parts = costs_.parts();
    transfers_.assign(static_cast<std::size_t>(costs_.layers()) * parts * parts, 0);
    slack_ = transfers_;
    for (int layer = 1; layer < costs_.layers(); ++layer) {
      const std::size_t at = static_cast<std::size_t>(layer) * parts * parts;
      for (int before = 0; before < parts; ++before)
        for (int after = 0; after < parts; ++after)
          transfers_[at + before * parts + after] = costs_.transfer(layer, before, after);
      for (int better = 0; better < parts; ++better)
        for (int worse = 0; worse < parts; ++worse)
          for (int before = 0; before < parts; ++before)
            slack_[at + better * parts + worse] =
                std::max(slack_[at + better * parts + worse],
                         transfer(layer, before, better) - transfer(layer, before, worse));
    }
  }

  void begin(OnceRange once, double below) {
    if (stages_.empty() || once.least != once_.least || once.most != once_.most) {
      once_ = once;
      schedule_ = costs_.schedule();
      schedule_.once = once.least;
      stages_.resize(costs_.ranges() * costs_.kinds_of_memory());
      work_ += static_cast<double>(stages_.size());
      costs_.for_each_range([&](int first, int last, int part) {
        for (int kind = 0; kind < costs_.kinds_of_memory(); ++kind)
          stages_[kind * costs_.ranges() + costs_.range(first, last, part)] =
              costs_.runs(first, last, part, kind, once);
      });
    }
    sum_up_rest(below);
  }

  /// Least sums of the layers before one on the devices that a state leaves, each by itself.
  void sum_up_rest(double below) {
    const std::size_t size = rest(costs_.layers() + 1, 0);
    for (auto* sums : {&rest_sum_, &rest_alone_, &rest_longer_}) sums->assign(size, kInfinity);
    const std::size_t none = rest(0, tiling_.full);
    rest_sum_[none] = rest_alone_[none] = rest_longer_[none] = 0;
    for (int layers = 1; layers <= costs_.layers(); ++layers)
      for (const auto& [first, part] : candidates_before(layers, below)) {
        const StageRuns& stage = stages_[costs_.range(first, layers - 1, part)];
        const double before = schedule_.before(stage, 0), longer = longer_run(stage);
        for (const TilingStep& step : tiling_.steps[part]) {
          const std::size_t from = rest(first, step.to), to = rest(layers, step.from);
          work_ += step.count;
          for (int i = 0; i < step.count; ++i) {
            if (rest_alone_[from + i] == kInfinity) continue;
            const auto least = [&](std::vector<double>& sums, double sum) {
              sums[to + i] = std::min(sums[to + i], sum);
            };
            least(rest_sum_, rest_sum_[from + i] + before);
            least(rest_alone_, std::max(rest_alone_[from + i], stage.alone));
            least(rest_longer_, std::max(rest_longer_[from + i], longer));
          }
        }
      }
  }

  /// A step takes B - 1 of them beside one micro-batch through all stages.
  double longer_run(const StageRuns& stage) const {
    switch (schedule_.kind) {
      case ScheduleKind::gpipe:
      case ScheduleKind::inference: return stage.least;
      case ScheduleKind::one_f_one_b:
      case ScheduleKind::one_f_one_b_overlap:
        return std::max({stage.forward, stage.backward, stage.least / 2});
      case ScheduleKind::zero_bubble:
      case ScheduleKind::interleaved_one_f_one_b: return 0;
    }
    return 0;
  }

  /// Of the step with any stages of the layers before.
  double with_rest(const PathSums& sums, std::size_t rest) const {
    return std::max(sums.step + rest_sum_[rest],
                    sums.to_end + rest_sum_[rest] + schedule_.once +
                        (costs_.micro_batches() - 1) * rest_longer_[rest]);
  }

  std::vector<Candidate> candidates_before(int end) const { return candidates_before(end, below_); }
  std::vector<Candidate> candidates_before(int end, double below) const {
    std::vector<Candidate> candidates;
    for (int first = end - 1; first >= 0; --first)
      for (int part = 0; part < costs_.parts(); ++part)
        if (stages_[costs_.range(first, end - 1, part)].alone < below)
          candidates.push_back({first, part});
    return candidates;
  }

  void extend(int end, int bucket, const std::vector<Candidate>& candidates) {
    const auto [state, count] = std::pair(buckets_[end][bucket].state, buckets_[end][bucket].count);
    const int kind = costs_.kind_of_memory(count);
    if (kind == costs_.kinds_of_memory()) return;
    const int in_flight = schedule_.in_flight(count);
    for (const Candidate& candidate : candidates) {
      const StageRuns& stage =
          stages_[kind * costs_.ranges() + costs_.range(candidate.first, end - 1, candidate.part)];
      if (stage.alone >= below_) continue;
      for (const int next : next_[candidate.part][state]) {
        const std::size_t left = rest(candidate.first, next);
        if (rest_alone_[left] >= below_) continue;
        if (is_ended()) return;
        Bucket* to = nullptr;
        const std::vector<Label>& labels = buckets_[end][bucket].labels;
        work_ += static_cast<double>(labels.size());
        for (int l = 0; l < static_cast<int>(labels.size()); ++l) {
          const Label& behind = labels[l];
          const double seconds = transfer(end, candidate.part, behind.part);
          if (behind.sums.step + schedule_.before(stage, seconds) + rest_sum_[left] >= below_)
            continue;
          const Label label{schedule_.with_stage(behind.sums, stage, seconds, in_flight), end - 1,
                            candidate.part, bucket, l};
          if (with_rest(label.sums, left) >= below_) continue;
          if (candidate.first == 0) {
            take(label);
            continue;
          }
          if (!to) to = &bucket_of(candidate.first, next, std::min(count + 1, costs_.counts() - 1));
          insert(candidate.first, label, to->labels);
        }
      }
    }
  }

  Bucket& bucket_of(int layer, int state, int count) {
    std::vector<int>& index = index_[layer];
    if (index.empty()) index.assign(static_cast<std::size_t>(tiling_.states) * costs_.counts(), -1);
    int& at = index[static_cast<std::size_t>(state) * costs_.counts() + count];
    if (at < 0) {
      at = static_cast<int>(buckets_[layer].size());
      buckets_[layer].push_back({state, count, {}});
    }
    return buckets_[layer][at];
  }

  bool is_ended() {
    constexpr double kBetween = 1e5;  // little work
    if (ended_ || work_ < asked_ + kBetween) return ended_;
    asked_ = work_;
    return ended_ = is_over_(work_);
  }

  void insert(int layer, const Label& label, std::vector<Label>& labels) {
    work_ += static_cast<double>(labels.size());  // are compared
    const auto dominates = [&](const Label& a, const Label& b) {
      const double more = slack(layer, a.part, b.part);
      return a.sums.to_end + more <= b.sums.to_end && a.sums.step + more <= b.sums.step &&
             a.sums.forward <= b.sums.forward && a.sums.backward <= b.sums.backward;
    };
    for (const Label& other : labels)
      if (dominates(other, label)) return;
    std::erase_if(labels, [&](const Label& other) { return dominates(label, other); });
    labels.push_back(label);
  }

  /// Nothing is left before it.
  void take(const Label& label) {
    std::vector<Label> stages = {label};
    for (int end = label.last + 1, bucket = label.bucket, at = label.label;
         end < costs_.layers();) {
      const Label& next = buckets_[end][bucket].labels[at];
      stages.push_back(next);
      end = next.last + 1, bucket = next.bucket, at = next.label;
    }
    if (costs_.is_known(stages)) return;
    below_ = found_.seconds = label.sums.step;
    found_.stages = std::move(stages);
  }

  const Costs& costs_;
  const Tiling& tiling_;
  const std::function<bool(double work)> is_over_;
  OnceRange once_;
  PathSchedule schedule_;
  std::vector<std::vector<std::vector<int>>> next_;  ///< states, per part and state
  std::vector<double> transfers_, slack_;            ///< per (layer, part, part)
  std::vector<StageRuns> stages_;                    ///< per kind of memory, range and part
  /// Per number of layers before and state: sums of seconds, the largest of a stage alone, and of
  /// its longer run.
  std::vector<double> rest_sum_, rest_alone_, rest_longer_;
  std::vector<std::vector<Bucket>> buckets_;  ///< per first layer
  std::vector<std::vector<int>> index_;       ///< of buckets, per first layer, state and count
  double below_ = 0, work_ = 0, asked_ = 0;
  bool ended_ = false;
  Found found_;
};

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
  StepBoundSearch(const StepBoundProblem& problem, const Costs& costs, const Tiling& tiling,
                  double enough)
      : problem_(problem),
        costs_(costs),
        enough_(enough),
        program_(costs, tiling, [this](double work) { return is_over(work); }) {}

  StepBound run() {
    open({0, std::min(costs_.most_once(), enough_)}, 0);
    if (open_.top().seconds < kInfinity)
      program_.drop_small_differences(kTuning.step_bound.small_transfer * open_.top().seconds /
                                      costs_.micro_batches());
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
    return ended_ || work >= kTuning.step_bound.most_work ||
           (problem_.is_over && problem_.is_over());
  }

  void open(OnceRange once, double seconds) {
    open_.push({once, std::max(seconds, program_.quick_bound(once, enough_)), {}});
  }

  /// For stages a little above the bound.
  void look(OnceInterval& interval) {
    const double more =
        interval.seconds > 0 ? interval.seconds * (1 + kTuning.step_bound.growth) : kInfinity;
    const double below = std::min(enough_, more);
    Found found = program_.solve(interval.once, below);
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
    return least <= interval.seconds * (1 + kTuning.step_bound.narrow);
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
  const Costs& costs_;
  const double enough_;
  LabelProgram program_;
  std::priority_queue<OnceInterval> open_;
  std::vector<Label> best_;  ///< of a wider interval than those that are open
  bool ended_ = false;
};

/// Submeshes on which some range may take less than `enough`.
std::vector<int> submeshes_in_use(const StepBoundProblem& problem) {
  std::vector<int> all(problem.submeshes.size()), used;
  std::iota(all.begin(), all.end(), 0);
  const Costs costs(problem, all);
  const OnceRange any{0, costs.most_once()};
  for (const int m : all) {
    bool is_used = false;
    for (int first = 0; first < costs.layers() && costs.kinds_of_memory() > 0; ++first)
      for (int last = first; last < costs.layers() && !is_used; ++last)
        is_used = costs.runs(first, last, m, 0, any).alone < problem.enough;
    if (is_used) used.push_back(m);
  }
  return used;
}

}  // namespace

StepBound step_bound(const StepBoundProblem& problem) {
  invariant(problem.costs.layers > 0 && problem.micro_batches > 0,
            "step bound: {} layers, {} micro-batches", problem.costs.layers, problem.micro_batches);
  invariant(problem.costs.submeshes == static_cast<int>(problem.submeshes.size()),
            "step bound: costs of {} submeshes, but {} submeshes", problem.costs.submeshes,
            problem.submeshes.size());
  if (problem.is_over && problem.is_over()) return {};
  const Costs costs(problem, submeshes_in_use(problem));
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
