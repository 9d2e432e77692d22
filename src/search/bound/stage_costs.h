#pragma once
/// Seconds of stages, at least, in a search for the least step (step_bound.h).
#include <cstddef>
#include <vector>

#include "src/search/bound/path_bound.h"
#include "src/search/bound/step_bound.h"

namespace alpa::inter_op {

/// An interval of the largest seconds that a stage runs once per step: from u1 to u2.
struct OnceRange {
  double least = 0, most = 0;
};

/// Lower bound on the seconds of a micro-batch: `seconds` - `slope`·u.
struct Line {
  double seconds = 0, slope = 0;
};

/// A partition of the layers from one on.
struct Label {
  PathSums sums;
  int last = -1, part = -1;     ///< of its first stage
  int bucket = -1, label = -1;  ///< behind that
};

/// Costs of the submeshes in use, by what memory distinguishes. Safe to call from several threads.
class StageCosts {
 public:
  StageCosts(const StepBoundProblem& problem, std::vector<int> submeshes);

  int layers() const { return layers_; }
  int parts() const { return static_cast<int>(submeshes_.size()); }
  const Submesh& submesh(int part) const { return problem_.submeshes[submeshes_[part]]; }
  int micro_batches() const { return problem_.micro_batches; }
  const PathSchedule& schedule() const { return schedule_; }
  /// Numbers of stages after a stage that are told apart.
  int counts() const { return counts_; }
  int kinds_of_memory() const { return static_cast<int>(limits_.size()); }
  /// Number of the limit of memory at a stage with so many stages after it; kinds_of_memory():
  /// nothing fits.
  int kind_of_memory(int after) const;
  double transfer(int layer, int before, int after) const;
  /// Stages of labels that follow each other from the first layer on.
  StagePartition partition(const std::vector<Label>& stages) const;
  bool is_known(const std::vector<Label>& stages) const;

  /// `alone` is infinite if the range does not fit.
  StageRuns runs(int first, int last, int part, int kind, OnceRange once) const;

  /// Seconds: more than this once per step makes no stage's runs shorter.
  double most_once() const;

  /// Classes of ranges, on each part.
  std::size_t ranges() const { return runs_.size(); }
  std::size_t range(int first, int last, int part) const;

  /// Calls visit(first layer, last layer, part) for one range of each class.
  template <class Visit>
  void for_each_range(const Visit& visit) const {
    std::vector<bool> is_visited(problem_.costs.classes);
    for (int first = 0; first < layers_; ++first)
      for (int last = first; last < layers_; ++last)
        if (const int of = problem_.costs.class_of[first * layers_ + last]; !is_visited[of]) {
          is_visited[of] = true;
          for (int part = 0; part < parts(); ++part) visit(first, last, part);
        }
  }

 private:
  int in_flight(int after) const;
  void set_lines();

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

}  // namespace alpa::inter_op
