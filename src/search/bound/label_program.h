#pragma once
/// The partition of the least bound by paths, found with labels: sums of the layers from one on.
/// Internal to step_bound.h.
#include <functional>
#include <vector>

#include "src/base/infinity.h"
#include "src/search/bound/stage_costs.h"
#include "src/search/bound/tiling.h"

namespace alpa::inter_op {

/// Labels of one first layer, state of the tiling and number of stages: a Pareto set.
struct Bucket {
  int state = 0, count = 0;
  std::vector<Label> labels;
};

/// The result of a program.
struct Found {
  double seconds = kInfinity;
  std::vector<Label> stages;  ///< from the first layer on
  bool is_complete = true;    ///< false: the work ended before
};

/// The dynamic program over labels, for the lists of submeshes of one tiling. One thread.
class LabelProgram {
 public:
  /// Asks `is_over`, with what is done so far, now and then.
  LabelProgram(const StageCosts& costs, const Tiling& tiling,
               std::function<bool(double work)> is_over);

  double work() const { return work_; }

  /// Transfers count as the least over the parts behind them if they differ by no more seconds:
  /// then labels need not tell these parts apart.
  void drop_small_differences(double seconds);

  /// Seconds that no partition of this interval takes less than, without labels.
  double quick_bound(OnceRange once, double below);

  /// The partition of the least bound for this interval, if it is less than `below`.
  Found solve(OnceRange once, double below);

 private:
  struct Candidate {
    int first = 0, part = 0;
  };

  std::size_t rest(int layers, int state) const;
  double transfer(int layer, int before, int after) const;
  double slack(int layer, int better, int worse) const;

  /// Transfers, and by how much they may be longer before one part than before another.
  void set_transfers();

  void begin(OnceRange once, double below);

  /// Least sums of the layers before one on the devices that a state leaves, each by itself.
  void sum_up_rest(double below);

  /// Seconds of the stage's longer run: a step takes B - 1 of them beside one micro-batch through
  /// all stages.
  double longer_run(const StageRuns& stage) const;

  /// Seconds of the step, at least, whatever the stages of the layers before are.
  double with_rest(const PathSums& sums, std::size_t rest) const;

  std::vector<Candidate> candidates_before(int end) const { return candidates_before(end, below_); }
  std::vector<Candidate> candidates_before(int end, double below) const;

  void extend(int end, int bucket, const std::vector<Candidate>& candidates);

  Bucket& bucket_of(int layer, int state, int count);

  bool is_ended();

  void insert(int layer, const Label& label, std::vector<Label>& labels);

  /// Keeps a label of all layers as the result, unless its stages are known.
  void take(const Label& label);

  const StageCosts& costs_;
  const Tiling& tiling_;
  const std::function<bool(double work)> is_over_;
  OnceRange once_;
  double stages_below_ = 0;  ///< seconds of a step; stages that take more are not told apart
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

}  // namespace alpa::inter_op
