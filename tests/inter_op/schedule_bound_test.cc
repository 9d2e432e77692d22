// The lower bound on schedules of any stages, against all partitions, played one by one.
#include "src/inter_op/schedule_bound.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "inter_op/partition_costs.h"
#include "src/inter_op/all_partitions.h"
#include "src/inter_op/stage_seconds.h"
#include "src/pipeline/schedule.h"

namespace schedule_bound_test {

using namespace alpa;
using namespace alpa::testing;
using inter_op::PartitionCosts;
using inter_op::StagePartition;
using inter_op::Submesh;

namespace {

constexpr ScheduleKind kKinds[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                   ScheduleKind::one_f_one_b_overlap, ScheduleKind::zero_bubble};

/// What stages of any range take on any submesh, and what they pass on.
struct Instance {
  Submesh cluster;
  std::vector<Submesh> submeshes;
  int layers, micro_batches;
  PartitionCosts costs;  ///< seconds of a micro-batch, its share of what runs once included
  std::vector<StageSeconds> seconds = {};  ///< as the costs are numbered
  std::vector<double> transfers = {};      ///< per (layer, submesh before, submesh after)

  double transfer(int layer, int before, int after) const {
    const auto count = submeshes.size();
    return transfers[(layer * count + before) * count + after];
  }
  inter_op::PartitionProblem problem(ScheduleKind kind) const {
    return {.cluster = cluster,
            .submeshes = submeshes,
            .costs = costs,
            .micro_batches = micro_batches,
            .in_flight =
                [=, this](int after) {
                  const int most_stages = std::min(layers, cluster.num_devices());
                  return pipeline::most_in_flight(kind, after, most_stages, micro_batches);
                },
            .transfer_seconds = [this](int layer, int before,
                                       int after) { return transfer(layer, before, after); }};
  }
};

/// `once`: the largest seconds of what runs once per step, where runs take about 1 per layer.
Instance random_instance(unsigned seed, double once) {
  NumpyRandom random(seed);
  const int layers = 2 + random.one_to_four();
  const Submesh cluster{1, 1 + random.one_to_four()};
  const int micro_batches = 1 + random.one_to_four() * random.one_to_four();
  const auto submeshes = inter_op::submesh_choices(cluster, inter_op::SubmeshSpace::any_size);
  const auto count = static_cast<int>(submeshes.size());
  Instance instance{cluster, submeshes, layers, micro_batches, PartitionCosts(layers, count, 1)};
  instance.seconds.resize(instance.costs.seconds.size());
  std::vector<double> of_layers(layers);
  for (double& seconds : of_layers) seconds = 0.5 + random.rand();
  for (int first = 0; first < layers; ++first)
    for (int last = first; last < layers; ++last)
      for (int m = 0; m < count; ++m) {
        const std::size_t at = instance.costs.index(first, last, m, 0);
        const double share = (0.9 + 0.3 * random.rand()) / submeshes[m].num_devices();
        const double runs = share * std::accumulate(&of_layers[first], &of_layers[last] + 1, 0.0);
        StageSeconds& seconds = instance.seconds[at];
        seconds.forward = runs * random.rand();
        seconds.backward = runs - seconds.forward;
        seconds.weights = seconds.backward * random.rand();
        seconds.apply = once * random.rand();
        instance.costs.seconds[at] = runs + seconds.apply / micro_batches;
        instance.costs.max_in_flight[at] = micro_batches;
      }
  for (int i = 0; i < layers * count * count; ++i)
    instance.transfers.push_back(0.2 * random.rand() * random.rand());
  return instance;
}

double bound_of(const Instance& instance, ScheduleKind kind, double enough, double share_known = 1,
                bool counts_waits = true) {
  const inter_op::PartitionProblem problem = instance.problem(kind);
  return inter_op::schedule_bound(
             {.stages = problem,
              .runs =
                  [&](int first, int last, int m) {
                    const StageSeconds& seconds =
                        instance.seconds[instance.costs.index(first, last, m, 0)];
                    return inter_op::LeastRuns{share_known * seconds.forward,
                                               share_known * seconds.backward};
                  },
              .schedule = kind,
              .counts_waits = counts_waits,
              .enough = enough})
      .seconds;
}

double played(const Instance& instance, const StagePartition& partition, ScheduleKind kind) {
  std::vector<StageSeconds> stages;
  std::vector<double> transfers;
  int before = -1;
  for (const inter_op::Stage& stage : partition.stages) {
    const auto at = std::find(instance.submeshes.begin(), instance.submeshes.end(), stage.submesh);
    const int m = static_cast<int>(at - instance.submeshes.begin());
    stages.push_back(
        instance.seconds[instance.costs.index(stage.first_layer, stage.last_layer, m, 0)]);
    if (before >= 0) transfers.push_back(instance.transfer(stage.first_layer, before, m));
    before = m;
  }
  return played_seconds(kind, instance.micro_batches)(stages, transfers);
}

double least_played(const Instance& instance, ScheduleKind kind) {
  double least = kInfinity;
  const auto partitions =
      inter_op::all_partitions(instance.cluster, instance.submeshes, instance.layers, 100'000);
  REQUIRE(!partitions.empty());
  for (const StagePartition& partition : partitions)
    least = std::min(least, played(instance, partition, kind));
  return least;
}

}  // namespace

TEST_CASE("no partition's schedule takes less than the bound, under any schedule") {
  double ratios = 0;
  int instances = 0;
  for (unsigned seed = 0; seed < 100; ++seed)
    for (const double once : {0.0, 0.3, 1.0, 3.0, 10.0}) {
      const Instance instance = random_instance(seed, once);
      for (const ScheduleKind kind : kKinds) {
        CAPTURE(seed);
        CAPTURE(once);
        CAPTURE(name_of(kind));
        const double least = least_played(instance, kind);
        const double bound = bound_of(instance, kind, 2 * least);
        CHECK(bound <= least * (1 + 1e-9));
        for (const double known : {1.0, 0.8, 0.5, 0.0})
          for (const bool waits : {true, false})
            CHECK(bound_of(instance, kind, 2 * least, known, waits) <= least * (1 + 1e-9));
        ratios += bound / least;
        ++instances;
      }
    }
  CHECK(ratios / instances > 0.9);
}

TEST_CASE("of equal layers on equal devices the bound of 1F1B and GPipe is what the best takes") {
  Instance instance{{1, 4}, {{1, 1}}, 4, 16, PartitionCosts(4, 1, 1)};
  instance.seconds.resize(instance.costs.seconds.size());
  for (int layer = 0; layer < 4; ++layer) {
    const std::size_t at = instance.costs.index(layer, layer, 0, 0);
    instance.seconds[at] = {.forward = 1, .backward = 2, .apply = 0};
    instance.costs.seconds[at] = 3;
    instance.costs.max_in_flight[at] = 16;
  }
  for (const double transfer : {0.0, 0.5})
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
      instance.transfers.assign(4, transfer);
      const double seconds = 3 * (16 + 3) + 3 * transfer;
      const double bound = bound_of(instance, kind, 1e3), least = least_played(instance, kind);
      if (kind == ScheduleKind::gpipe || transfer == 0) {
        CHECK(bound == doctest::Approx(seconds));
        CHECK(least == doctest::Approx(seconds));
      } else {  // in 1F1B stages wait for transfers
        CHECK(bound > seconds);
        CHECK(bound > 0.99 * least);
        CHECK(bound <= least * (1 + 1e-9));
      }
    }
}

TEST_CASE("stages beside the slowest one may have more of what runs once per step") {
  constexpr int kStages = 5;
  for (const int micro_batches : {4, 6, 8})
    for (int slowest = 0; slowest < kStages; ++slowest)
      for (const double once : {0.05, 0.1, 0.2, 0.3, 0.4}) {
        Instance instance{
            {1, kStages}, {{1, 1}}, kStages, micro_batches, PartitionCosts(kStages, 1, 1)};
        instance.seconds.resize(instance.costs.seconds.size());
        for (int layer = 0; layer < kStages; ++layer) {
          const std::size_t at = instance.costs.index(layer, layer, 0, 0);
          const double runs = layer == slowest ? 1 : 0.99 - once;
          instance.seconds[at] = {.forward = runs / 2,
                                  .backward = runs / 2,
                                  .apply = layer == slowest ? 0 : once * micro_batches};
          instance.costs.seconds[at] = layer == slowest ? 1 : 0.99;
          instance.costs.max_in_flight[at] = micro_batches;
        }
        instance.transfers.assign(kStages, 0);
        CAPTURE(micro_batches);
        CAPTURE(slowest);
        CAPTURE(once);
        for (const ScheduleKind kind : kKinds) {
          CAPTURE(name_of(kind));
          const double least = least_played(instance, kind);
          for (const double known : {1.0, 0.5, 0.0})
            for (const bool waits : {true, false})
              CHECK(bound_of(instance, kind, 2 * least, known, waits) <= least * (1 + 1e-9));
        }
      }
}

TEST_CASE("a slow first stage hides the others in 1F1B, which the bound knows") {
  Instance instance{{1, 2}, {{1, 1}}, 2, 8, PartitionCosts(2, 1, 1)};
  instance.seconds.resize(instance.costs.seconds.size());
  for (int layer = 0; layer < 2; ++layer) {
    const std::size_t at = instance.costs.index(layer, layer, 0, 0);
    const double runs = layer == 0 ? 10 : 1;
    instance.seconds[at] = {.forward = runs / 2, .backward = runs / 2};
    instance.costs.seconds[at] = runs;
    instance.costs.max_in_flight[at] = 8;
  }
  instance.transfers.assign(2, 0);
  CHECK(least_played(instance, ScheduleKind::one_f_one_b) == 80);  // the sum would say 81
  CHECK(bound_of(instance, ScheduleKind::one_f_one_b, 1e3) == 80);
  CHECK(bound_of(instance, ScheduleKind::gpipe, 1e3) == 81);
}

}  // namespace schedule_bound_test
