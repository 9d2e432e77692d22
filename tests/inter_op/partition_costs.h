#pragma once
/// Stage problems for tests: numpy's random numbers, Alpa's dynamic program, and brute force.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "src/base/infinity.h"
#include "src/inter_op/best_partition.h"

namespace alpa::testing {

/// numpy.random.RandomState(seed).
class NumpyRandom {
 public:
  explicit NumpyRandom(unsigned seed) : random_(seed) {}
  double rand() {
    const std::uint32_t high = random_() >> 5, low = random_() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }
  /// From 1 to 4.
  int one_to_four() { return 1 + static_cast<int>(random_() & 3); }

 private:
  std::mt19937 random_;
};

/// What Alpa's training_dp finds (stage_construction.py): bounds less than 1e-6 above the previous
/// one are left out, as many micro-batches are in flight as stages follow plus one, transfers cost
/// nothing. Its table has `seconds` of ranges that do not exist, too, if they are finite.
inline std::optional<inter_op::PartitionResult> alpa_search(
    const inter_op::PartitionProblem& problem) {
  const inter_op::PartitionCosts& costs = problem.costs;
  const int layers = costs.layers, devices = problem.cluster.num_devices();
  struct Entry {
    double sum = kInfinity, largest = 0;
    std::vector<inter_op::Stage> stages;
  };
  const auto with_stage = [&](Entry& best, const Entry& rest, int i, int k, int m, int c) {
    const double seconds = costs.seconds[costs.index(i, k, m, c)];
    if (rest.sum + seconds >= best.sum) return;
    best = {rest.sum + seconds, std::max(rest.largest, seconds), rest.stages};
    best.stages.insert(best.stages.begin(), {i, k, problem.submeshes[m], c});
  };
  const std::set<double> bounds(costs.seconds.begin(), costs.seconds.end());
  inter_op::PartitionResult result;
  result.seconds = kInfinity;
  double last = 0;
  for (const double bound : bounds) {
    if (bound * problem.micro_batches >= result.seconds) break;
    if (bound - last < 1e-6) continue;
    last = bound;
    // best[s][i][d]: layers from i on in s stages on d devices
    std::vector<std::vector<std::vector<Entry>>> best(
        layers + 1, std::vector<std::vector<Entry>>(layers + 1, std::vector<Entry>(devices + 1)));
    best[0][layers][0].sum = 0;
    for (int s = 1; s <= layers; ++s)
      for (int i = layers - 1; i >= 0; --i)
        for (int d = 1; d <= devices; ++d)
          for (int k = layers - 1; k >= i; --k)
            for (int m = 0; m < costs.submeshes; ++m)
              for (int c = 0; c < costs.configurations; ++c) {
                const int rest = d - problem.submeshes[m].num_devices();
                const std::size_t at = costs.index(i, k, m, c);
                if (rest >= 0 && costs.seconds[at] <= bound && s <= costs.max_in_flight[at])
                  with_stage(best[s][i][d], best[s - 1][k + 1][rest], i, k, m, c);
              }
    Entry least;
    for (int s = 1; s <= layers; ++s)
      if (best[s][0][devices].sum < least.sum) least = best[s][0][devices];
    const double seconds = least.sum + (problem.micro_batches - 1) * least.largest;
    if (seconds < result.seconds) {
      result.seconds = seconds;
      result.sum = least.sum;
      result.bottleneck = least.largest;
      result.partition.stages = least.stages;
    }
  }
  if (result.seconds == kInfinity) return std::nullopt;
  return result;
}

/// Seconds of all partitions, submeshes and configurations: the least, or infinity.
class BruteForce {
 public:
  explicit BruteForce(const inter_op::PartitionProblem& problem) : problem_(problem) {}

  double run() {
    add_stages(0, 0);
    return best_;
  }

 private:
  struct Stage {
    int first, last, m, c;
  };

  void add_stages(int first, int devices) {
    if (first == problem_.costs.layers && devices == problem_.cluster.num_devices()) price();
    for (int last = first; last < problem_.costs.layers; ++last)
      for (int m = 0; m < problem_.costs.submeshes; ++m)
        for (int c = 0; c < problem_.costs.configurations; ++c) {
          const int used = devices + problem_.submeshes[m].num_devices();
          if (used > problem_.cluster.num_devices()) continue;
          stages_.push_back({first, last, m, c});
          add_stages(last + 1, used);
          stages_.pop_back();
        }
  }

  int in_flight(int after) const {
    return problem_.in_flight ? problem_.in_flight(after)
                              : std::min(problem_.micro_batches, after + 1);
  }

  void price() {
    double sum = 0, largest = 0;
    const auto add = [&](double seconds) { sum += seconds, largest = std::max(largest, seconds); };
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const Stage& stage = stages_[s];
      const std::size_t at = problem_.costs.index(stage.first, stage.last, stage.m, stage.c);
      const int after = static_cast<int>(stages_.size() - s) - 1;
      if (in_flight(after) > problem_.costs.max_in_flight[at]) return;
      add(problem_.costs.seconds[at]);
      if (s > 0 && problem_.transfer_seconds)
        add(problem_.transfer_seconds(stage.first, stages_[s - 1].m, stage.m));
    }
    double to_end = 0;
    for (std::size_t s = stages_.size(); problem_.waits_in_flight && s-- > 0;) {
      const Stage& stage = stages_[s];
      to_end +=
          problem_.costs.seconds[problem_.costs.index(stage.first, stage.last, stage.m, stage.c)];
      largest = std::max(largest, to_end / in_flight(static_cast<int>(stages_.size() - s) - 1));
      if (s > 0 && problem_.transfer_seconds)
        to_end += problem_.transfer_seconds(stage.first, stages_[s - 1].m, stage.m);
    }
    const double seconds = sum + (problem_.micro_batches - 1) * largest;
    if (seconds < best_ && tiles()) best_ = seconds;
  }

  /// Whether each submesh finds a host with room, or empty hosts.
  bool tiles() {
    std::vector<int> submeshes;
    for (const Stage& stage : stages_) submeshes.push_back(stage.m);
    std::sort(submeshes.begin(), submeshes.end());
    const auto [known, added] = tiles_.try_emplace(submeshes, false);
    std::vector<int> free(problem_.cluster.hosts, problem_.cluster.devices);
    if (added) known->second = can_place(submeshes, 0, free);
    return known->second;
  }

  bool can_place(const std::vector<int>& submeshes, std::size_t next, std::vector<int>& free) {
    if (next == submeshes.size()) return true;
    const inter_op::Submesh& submesh = problem_.submeshes[submeshes[next]];
    for (int host = 0; host + submesh.hosts <= static_cast<int>(free.size()); ++host) {
      std::vector<int> rest = free;
      bool fits = true;
      for (int h = host; h < host + submesh.hosts; ++h)
        fits = (rest[h] -= submesh.devices) >= 0 && fits;
      if (fits && can_place(submeshes, next + 1, rest)) return true;
    }
    return false;
  }

  const inter_op::PartitionProblem& problem_;
  std::vector<Stage> stages_;
  std::map<std::vector<int>, bool> tiles_;
  double best_ = kInfinity;
};

}  // namespace alpa::testing
