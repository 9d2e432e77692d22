// Seconds of stages, by what memory and the step's end distinguish
#include "src/search/bound/stage_costs.h"

#include <algorithm>
#include <set>
#include <utility>

namespace alpa::inter_op {

StageCosts::StageCosts(const StepBoundProblem& problem, std::vector<int> submeshes)
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

int StageCosts::kind_of_memory(int after) const {
  const auto at = std::lower_bound(limits_.begin(), limits_.end(), in_flight_[after]);
  return static_cast<int>(at - limits_.begin());
}

double StageCosts::transfer(int layer, int before, int after) const {
  return problem_.transfer_seconds
             ? problem_.transfer_seconds(layer, submeshes_[before], submeshes_[after])
             : 0;
}

StagePartition StageCosts::partition(const std::vector<Label>& stages) const {
  StagePartition partition;
  int first = 0;
  for (const Label& of : stages) {
    partition.stages.push_back({first, of.last, submesh(of.part)});
    first = of.last + 1;
  }
  return partition;
}

bool StageCosts::is_known(const std::vector<Label>& stages) const {
  return !problem_.known.empty() && std::ranges::any_of(problem_.known, [&](const auto& known) {
    return have_equal_cuts(known, partition(stages));
  });
}

StageRuns StageCosts::runs(int first, int last, int part, int kind, OnceRange once) const {
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

double StageCosts::most_once() const {
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

std::size_t StageCosts::range(int first, int last, int part) const {
  const std::size_t of = problem_.costs.class_of[first * layers_ + last];
  return of * parts() + part;
}

int StageCosts::in_flight(int after) const {
  return problem_.in_flight ? problem_.in_flight(after) : schedule_.in_flight(after);
}

void StageCosts::set_lines() {
  runs_.resize(static_cast<std::size_t>(problem_.costs.classes) * parts());
  lines_.resize(limits_.size() * ranges());
  const PartitionCosts& costs = problem_.costs;
  // What hides is no longer than the last backward run, which has no forward run in it.
  const double share = 1.0 / micro_batches(), hidden = problem_.hides_gradients ? share : 0;
  std::vector<double> least(limits_.size());  // seconds, by what is in flight
  for_each_range([&](int first, int last, int part) {
    const std::size_t at = range(first, last, part);
    runs_[at] = problem_.runs(first, last, submeshes_[part]);
    std::ranges::fill(least, kInfinity);
    for (int c = 0; c < costs.configurations; ++c) {
      const std::size_t of = costs.index(first, last, submeshes_[part], c);
      const auto above = std::ranges::upper_bound(limits_, costs.max_in_flight[of]);
      if (above == limits_.begin()) continue;
      double& seconds = least[above - limits_.begin() - 1];
      seconds = std::min(seconds, costs.seconds[of]);
    }
    for (std::size_t kind = limits_.size(); kind-- > 0;) {
      if (kind + 1 < limits_.size()) least[kind] = std::min(least[kind], least[kind + 1]);
      lines_[kind * ranges() + at] = {(least[kind] + hidden * runs_[at].forward) / (1 + hidden),
                                      share / (1 + hidden)};
    }
  });
}

}  // namespace alpa::inter_op
