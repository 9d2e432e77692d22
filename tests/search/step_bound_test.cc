// The lower bound on steps of any stages, against all partitions, played one by one.
#include "src/search/bound/step_bound.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "fuzz/seeds.h"
#include "search/all_partitions.h"
#include "src/plan/evaluation/stage_seconds.h"
#include "src/plan/schedules/schedule.h"

namespace step_bound_test {

using namespace alpa;
using inter_op::PartitionCosts;
using inter_op::StagePartition;
using inter_op::StepBound;
using inter_op::Submesh;

namespace {

constexpr ScheduleKind kKinds[] = {ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap,
                                   ScheduleKind::gpipe, ScheduleKind::zero_bubble,
                                   ScheduleKind::inference};

/// What stages of any range take on any submesh, and what they pass on.
struct Instance {
  Submesh cluster;
  std::vector<Submesh> submeshes;
  int layers, micro_batches;
  PartitionCosts costs;                    ///< with the share of what runs once
  std::vector<StageSeconds> seconds = {};  ///< as the costs are numbered
  std::vector<double> transfers = {};      ///< per (layer, submesh before, submesh after)

  double transfer(int layer, int before, int after) const {
    const auto count = submeshes.size();
    return transfers[(layer * count + before) * count + after];
  }
  std::size_t at(int first, int last, int m) const { return costs.index(first, last, m, 0); }
  /// Micro-batches in flight, as memory has to suffice for them: those of as many stages as fit.
  int in_flight(ScheduleKind kind, int after) const {
    return pipeline::most_in_flight(kind, after, std::min(layers, cluster.num_devices()),
                                    micro_batches);
  }
};

/// `once`: the largest seconds of what runs once per step, where runs take about 1 per layer.
Instance random_instance(std::uint64_t seed, double once, ScheduleKind kind, double transfer) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return std::uniform_real_distribution()(random); };
  const auto to = [&](int most) { return 1 + static_cast<int>(random() % most); };
  const int layers = 1 + to(5), micro_batches = to(4) * to(5);
  const Submesh cluster = to(2) == 1 ? Submesh{1, 1 + to(5)} : Submesh{2, 1 + to(2)};
  const auto submeshes = inter_op::submesh_choices(cluster, inter_op::SubmeshSpace::any_size);
  const auto count = static_cast<int>(submeshes.size());
  Instance instance{cluster, submeshes, layers, micro_batches, PartitionCosts(layers, count, 1)};
  instance.seconds.resize(instance.costs.seconds.size());
  std::vector<double> of_layers(layers);
  for (double& seconds : of_layers) seconds = 0.5 + uniform();
  for (int first = 0; first < layers; ++first)
    for (int last = first; last < layers; ++last)
      for (int m = 0; m < count; ++m) {
        const std::size_t at = instance.at(first, last, m);
        // More devices are used less well, so several stages are often the best.
        const double share = (1 + 0.3 * uniform()) / std::pow(submeshes[m].num_devices(), 0.7);
        const double runs = share * std::accumulate(&of_layers[first], &of_layers[last] + 1, 0.0);
        StageSeconds& seconds = instance.seconds[at];
        seconds.forward = kind == ScheduleKind::inference ? runs : runs * (0.2 + 0.3 * uniform());
        seconds.backward = runs - seconds.forward;
        seconds.weights = seconds.backward * uniform();
        seconds.apply = once * uniform() * share;
        instance.costs.seconds[at] = runs + seconds.apply / micro_batches;
        instance.costs.max_in_flight[at] = to(3) == 1 ? to(4) : 100;
      }
  for (int i = 0; i < layers * count * count; ++i)
    instance.transfers.push_back(transfer * uniform() * uniform());
  return instance;
}

/// What is known of runs, and of what runs once.
struct Known {
  double runs = 1;         ///< share
  bool in_flight = false;  ///< false: as many as any number of stages keeps
};

StepBound bound_of(const Instance& instance, ScheduleKind kind, double enough,
                   const Known& known = {}) {
  std::function<int(int)> in_flight;
  if (known.in_flight) in_flight = [&](int after) { return instance.in_flight(kind, after); };
  return inter_op::step_bound(
      {.cluster = instance.cluster,
       .submeshes = instance.submeshes,
       .costs = instance.costs,
       .runs =
           [&](int first, int last, int m) {
             const auto& of = instance.seconds[instance.at(first, last, m)];
             return inter_op::LeastRuns{known.runs * of.forward, known.runs * of.backward};
           },
       .micro_batches = instance.micro_batches,
       .schedule = kind,
       .in_flight = std::move(in_flight),
       .transfer_seconds = [&](int layer, int before,
                               int after) { return instance.transfer(layer, before, after); },
       .enough = enough});
}

/// Infinite: it does not fit the memory.
double played(const Instance& instance, const StagePartition& partition, ScheduleKind kind) {
  std::vector<StageSeconds> stages;
  std::vector<double> transfers;
  int before = -1, after = static_cast<int>(partition.stages.size());
  for (const inter_op::Stage& stage : partition.stages) {
    const auto found =
        std::find(instance.submeshes.begin(), instance.submeshes.end(), stage.submesh);
    const int m = static_cast<int>(found - instance.submeshes.begin());
    const std::size_t at = instance.at(stage.first_layer, stage.last_layer, m);
    --after;
    if (instance.in_flight(kind, after) > instance.costs.max_in_flight[at]) return kInfinity;
    stages.push_back(instance.seconds[at]);
    if (before >= 0) transfers.push_back(instance.transfer(stage.first_layer, before, m));
    before = m;
  }
  return played_seconds(kind, instance.micro_batches)(stages, transfers);
}

double least_played(const Instance& instance, ScheduleKind kind) {
  const auto partitions =
      testing::all_partitions(instance.cluster, instance.submeshes, instance.layers);
  REQUIRE(!partitions.empty());
  double least = kInfinity;
  for (const StagePartition& partition : partitions)
    least = std::min(least, played(instance, partition, kind));
  return least;
}

/// Of what the best partition takes, the share that bounds lack.
struct Gaps {
  double sum = 0, most = 0;
  int count = 0;

  void add(double gap) { sum += gap, most = std::max(most, gap), ++count; }
  double mean() const { return count > 0 ? sum / count : 0; }
};

}  // namespace

TEST_CASE("no partition's schedule takes less than the bound, and one takes hardly more") {
  const fuzz::Seeds seeds = fuzz::seeds_or(200);
  for (const ScheduleKind kind : kKinds) {
    Gaps exact, proposals, partly;
    for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
      constexpr double kOnce[] = {0, 0.1, 0.3, 0.5, 1}, kTransfer[] = {0, 0.1, 0.3};
      const Instance instance =
          random_instance(seed, kOnce[seed % 5], kind, kTransfer[seed / 5 % 3]);
      const double least = least_played(instance, kind);
      if (least == kInfinity) continue;
      INFO("seed " << seed << " of " << name_of(kind));
      const StepBound all = bound_of(instance, kind, kInfinity, {1, true});
      CHECK(all.seconds <= least * (1 + 1e-9));
      REQUIRE(!all.stages.stages.empty());
      exact.add(1 - all.seconds / least);
      proposals.add(played(instance, all.stages, kind) / least - 1);
      for (const Known& known : {Known{1}, Known{0.8}, Known{0.5}, Known{0}}) {
        const double bound = bound_of(instance, kind, 2 * least, known).seconds;
        CHECK(bound <= least * (1 + 1e-9));
        partly.add(1 - bound / least);
      }
    }
    MESSAGE(
        fmt::format("{}: gap {:.3f} % on average, at most {:.1f}; stages {:.3f} %, {:.1f}; with "
                    "less known {:.1f} %, {:.0f}",
                    name_of(kind), 100 * exact.mean(), 100 * exact.most, 100 * proposals.mean(),
                    100 * proposals.most, 100 * partly.mean(), 100 * partly.most));
    CHECK(exact.mean() < (kind == ScheduleKind::zero_bubble ? 0.1 : 0.003));
    CHECK(proposals.mean() < (kind == ScheduleKind::zero_bubble ? 0.1 : 0.003));
    CHECK(partly.mean() < 0.2);
  }
}

TEST_CASE("what is known already is left out: other stages are the least then") {
  const Instance instance = random_instance(3, 0, ScheduleKind::one_f_one_b, 0);
  const auto least_without = [&](const std::vector<StagePartition>& known) {
    return inter_op::step_bound({.cluster = instance.cluster,
                                 .submeshes = instance.submeshes,
                                 .costs = instance.costs,
                                 .runs =
                                     [&](int first, int last, int m) {
                                       const auto& of =
                                           instance.seconds[instance.at(first, last, m)];
                                       return inter_op::LeastRuns{of.forward, of.backward};
                                     },
                                 .micro_batches = instance.micro_batches,
                                 .known = known});
  };
  std::vector<StagePartition> known;
  double before = 0;
  for (int i = 0; i < 3; ++i) {
    const StepBound next = least_without(known);
    REQUIRE(!next.stages.stages.empty());
    CHECK(std::ranges::none_of(
        known, [&](const StagePartition& of) { return have_equal_cuts(of, next.stages); }));
    CHECK(next.seconds >= before * (1 - 1e-3));
    before = next.seconds;
    known.push_back(next.stages);
  }
}

TEST_CASE("a slow first stage hides the others in 1F1B, which the bound knows") {
  Instance instance{{1, 2}, {{1, 1}}, 2, 8, PartitionCosts(2, 1, 1)};
  instance.seconds.resize(instance.costs.seconds.size());
  for (int layer = 0; layer < 2; ++layer) {
    const std::size_t at = instance.at(layer, layer, 0);
    const double runs = layer == 0 ? 10 : 1;
    instance.seconds[at] = {.forward = runs / 2, .backward = runs / 2};
    instance.costs.seconds[at] = runs;
    instance.costs.max_in_flight[at] = 8;
  }
  instance.transfers.assign(2, 0);
  CHECK(least_played(instance, ScheduleKind::one_f_one_b) == 80);  // the sum would say 81
  CHECK(bound_of(instance, ScheduleKind::one_f_one_b, 1e3).seconds == 80);
  CHECK(bound_of(instance, ScheduleKind::gpipe, 1e3).seconds == 81);
}

TEST_CASE("ranges of one class cost what they cost each by itself") {
  for (int seed = 0; seed < 20; ++seed) {
    Instance each = random_instance(seed, 0.5, ScheduleKind::one_f_one_b, 0.1);
    std::vector<int> class_of(each.layers * each.layers);
    for (int first = 0; first < each.layers; ++first)
      for (int last = first; last < each.layers; ++last)
        class_of[first * each.layers + last] = last - first;
    const int count = static_cast<int>(each.submeshes.size());
    Instance of_classes = each;
    of_classes.costs = PartitionCosts(each.layers, class_of, count, 1);
    CHECK(of_classes.costs.classes == each.layers);
    of_classes.seconds.resize(of_classes.costs.seconds.size());
    for (int first = 0; first < each.layers; ++first)
      for (int last = first; last < each.layers; ++last)
        for (int m = 0; m < count; ++m) {
          const std::size_t at = each.at(first, last, m), example = each.at(0, last - first, m);
          each.seconds[at] = each.seconds[example];
          each.costs.seconds[at] = each.costs.seconds[example];
          each.costs.max_in_flight[at] = each.costs.max_in_flight[example];
          const std::size_t of_class = of_classes.at(first, last, m);
          of_classes.seconds[of_class] = each.seconds[example];
          of_classes.costs.seconds[of_class] = each.costs.seconds[example];
          of_classes.costs.max_in_flight[of_class] = each.costs.max_in_flight[example];
        }
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe})
      CHECK(bound_of(of_classes, kind, kInfinity).seconds ==
            bound_of(each, kind, kInfinity).seconds);
  }
}

TEST_CASE("far below what is asked for, a bound is known up to a tenth of what is left") {
  int rough = 0;
  for (int seed = 0; seed < 30; ++seed) {
    const Instance instance = random_instance(seed, 3, ScheduleKind::one_f_one_b, 0.1);
    const double exact = bound_of(instance, ScheduleKind::one_f_one_b, kInfinity).seconds;
    if (exact == kInfinity) continue;
    const StepBound far = bound_of(instance, ScheduleKind::one_f_one_b, 2 * exact);
    CHECK(far.seconds <= exact * (1 + 1e-3));
    CHECK(far.seconds >= 0.89 * exact);
    CHECK(!far.stages.stages.empty());
    rough += far.seconds < 0.999 * exact;
  }
  CHECK(rough > 0);
}

TEST_CASE("a search that is ended early, or that nothing fits, says so") {
  Instance instance = random_instance(3, 0, ScheduleKind::one_f_one_b, 0);
  CHECK(bound_of(instance, ScheduleKind::one_f_one_b, 1e-9).stages.stages.empty());
  std::ranges::fill(instance.costs.max_in_flight, 0);
  CHECK(bound_of(instance, ScheduleKind::one_f_one_b, kInfinity).seconds == kInfinity);
}

}  // namespace step_bound_test
