// The stage search on Alpa's published problems: its seconds, and its stages.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "src/search/bound/step_bound.h"

namespace alpa_stages_test {

using namespace alpa;
using inter_op::PartitionCosts;
using inter_op::Submesh;
using inter_op::SubmeshSpace;

namespace {

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

/// Source: Alpa's test_dynamic_programming.py.
PartitionCosts case_a() {
  PartitionCosts costs(8, 4, 5);
  NumpyRandom random(42);
  for (double& seconds : costs.seconds) seconds = random.rand();
  for (int& most : costs.max_in_flight) most = 4096 + 1;
  return costs;
}

struct CaseB {
  int layers, micro_batches;
  Submesh cluster;
  PartitionCosts costs;
};

/// Source: Alpa's test_old_dp_vs_new_dp.py; its 48 cases in order.
std::vector<CaseB> cases_b() {
  NumpyRandom random(0);
  std::vector<CaseB> cases;
  const auto add = [&](int layers, const Submesh& cluster, int micro_batches) {
    const double exponent = random.rand() * 4 - 2, memory = random.rand() * 4;
    const int configurations = random.one_to_four();
    const auto submeshes = inter_op::submesh_choices(cluster, SubmeshSpace::all);
    PartitionCosts costs(layers, static_cast<int>(submeshes.size()), configurations);
    std::vector<double> seconds(layers), bytes(layers);
    for (double& s : seconds) s = random.rand();
    for (double& b : bytes) b = random.rand();
    const double all_bytes = std::accumulate(bytes.begin(), bytes.end(), 0.0);
    for (int first = 0; first < layers; ++first)
      for (int last = first; last < layers; ++last)
        for (int m = 0; m < costs.submeshes; ++m)
          for (int c = 0; c < configurations; ++c) {
            const double factor = random.rand() + 1;
            const double size = submeshes[m].num_devices();
            const auto sum = [&](const std::vector<double>& of) {
              return std::accumulate(of.begin() + first, of.begin() + last + 1, 0.0);
            };
            const std::size_t at = costs.index(first, last, m, c);
            costs.seconds[at] = sum(seconds) * factor * std::pow(size, exponent);
            costs.max_in_flight[at] =
                1 + static_cast<int>(memory * layers * (size / cluster.num_devices()) /
                                     (sum(bytes) / all_bytes) / factor);
          }
    cases.push_back({layers, micro_batches, cluster, costs});
  };
  for (int layers : {4, 8})
    for (int hosts : {1, 4})
      for (int devices : {1, 4})
        for (int micro_batches : {1, 16, 512})
          for (int repeat = 0; repeat < 2; ++repeat) add(layers, {hosts, devices}, micro_batches);
  return cases;
}

/// Alpa counts Σ t + (B - 1)·max t, as forward runs alone take, and does not limit micro-batches in
/// flight by their number. Each configuration is a submesh of its own: it knows its seconds.
inter_op::StepBound least_of(const Submesh& cluster, const std::vector<Submesh>& submeshes,
                             const PartitionCosts& costs, int micro_batches) {
  const int configurations = costs.configurations;
  std::vector<Submesh> choices;
  for (const Submesh& submesh : submeshes) choices.insert(choices.end(), configurations, submesh);
  PartitionCosts of_choices(costs.layers, static_cast<int>(choices.size()), 1);
  of_choices.seconds = costs.seconds;
  of_choices.max_in_flight = costs.max_in_flight;
  return inter_op::step_bound({.cluster = cluster,
                               .submeshes = choices,
                               .costs = of_choices,
                               .runs =
                                   [&](int first, int last, int choice) {
                                     const auto at = of_choices.index(first, last, choice, 0);
                                     return inter_op::LeastRuns{of_choices.seconds[at], 0};
                                   },
                               .micro_batches = micro_batches,
                               .schedule = ScheduleKind::inference,
                               .in_flight = [](int after) { return after + 1; }});
}

/// "[((0, 4), 2)]": layers and submesh per stage.
std::string alpa_text(const inter_op::StagePartition& stages,
                      const std::vector<Submesh>& submeshes) {
  std::string text;
  for (const inter_op::Stage& stage : stages.stages) {
    const auto m = std::find(submeshes.begin(), submeshes.end(), stage.submesh);
    text += fmt::format("{}(({}, {}), {})", text.empty() ? "" : ", ", stage.first_layer,
                        stage.last_layer + 1, m - submeshes.begin());
  }
  return "[" + text + "]";
}

struct Golden {
  double seconds;
  std::string stages;
};

/// Cases 0, 2, 4, … of `cases_b`, as both of Alpa's searches answered them.
const std::vector<Golden> kGoldenB = {
    {4.125272274017334, "[((0, 4), 0)]"},
    {57.790199279785156, "[((0, 4), 0)]"},
    {1644.94970703125, "[((0, 4), 0)]"},
    {0.29228338599205017, "[((0, 4), 2)]"},
    {13.760639309883118, "[((0, 1), 0), ((1, 2), 0), ((2, 3), 0), ((3, 4), 0)]"},
    {613.9199863672256, "[((0, 1), 1), ((1, 2), 0), ((2, 4), 0)]"},
    {0.7618089318275452, "[((0, 4), 3)]"},
    {17.44724977016449, "[((0, 1), 1), ((1, 3), 0), ((3, 4), 0)]"},
    {442.2075916528702, "[((0, 1), 0), ((1, 2), 0), ((2, 3), 0), ((3, 4), 0)]"},
    {2.9058268070220947, "[((0, 1), 4), ((1, 4), 2)]"},
    {102.57364416122437, "[((0, 1), 2), ((1, 2), 1), ((2, 3), 3), ((3, 4), 1)]"},
    {488.89781761169434, "[((0, 1), 3), ((1, 2), 2), ((2, 3), 1), ((3, 4), 1)]"},
    {6.666613578796387, "[((0, 8), 0)]"},
    {76.27630615234375, "[((0, 8), 0)]"},
    {3009.148193359375, "[((0, 8), 0)]"},
    {3.5513882637023926, "[((0, 1), 0), ((1, 2), 0), ((2, 4), 0), ((4, 8), 0)]"},
    {30.51642405986786, "[((0, 3), 0), ((3, 4), 0), ((4, 7), 0), ((7, 8), 0)]"},
    {869.6973206996918, "[((0, 2), 0), ((2, 4), 0), ((4, 6), 0), ((6, 8), 0)]"},
    {4.416593551635742, "[((0, 1), 1), ((1, 8), 1)]"},
    {6.376956462860107, "[((0, 8), 3)]"},
    {370.67927062511444, "[((0, 2), 0), ((2, 4), 0), ((4, 7), 0), ((7, 8), 0)]"},
    {6.5248188972473145,
     "[((0, 1), 1), ((1, 3), 1), ((3, 4), 1), ((4, 5), 3), ((5, 6), 0), ((6, 8), "
     "0)]"},
    {17.337219417095184,
     "[((0, 1), 0), ((1, 2), 2), ((2, 4), 0), ((4, 5), 0), ((5, 7), 3), ((7, 8), "
     "0)]"},
    {12.260608673095703, "[((0, 8), 5)]"},
};

}  // namespace

TEST_CASE("stage search of case A: Alpa's stages and step") {
  const auto submeshes = inter_op::submesh_choices({1, 8}, SubmeshSpace::all);
  const PartitionCosts costs = case_a();
  CHECK(std::accumulate(costs.seconds.begin(), costs.seconds.end(), 0.0) ==
        doctest::Approx(637.5311723396865));
  const inter_op::StepBound least = least_of({1, 8}, submeshes, costs, 16);
  CHECK(least.seconds == doctest::Approx(0.29528506100177765).epsilon(1e-7));
  CHECK(alpa_text(least.stages, submeshes) == "[((0, 4), 2), ((4, 8), 2)]");
}

TEST_CASE("stage search of case B: Alpa's seconds and stages in all published cases") {
  const std::vector<CaseB> cases = cases_b();
  REQUIRE(cases.size() == 2 * kGoldenB.size());
  for (std::size_t i = 0; i < kGoldenB.size(); ++i) {
    CAPTURE(i);
    const CaseB& of = cases[2 * i];
    const auto submeshes = inter_op::submesh_choices(of.cluster, SubmeshSpace::all);
    const inter_op::StepBound least = least_of(of.cluster, submeshes, of.costs, of.micro_batches);
    CHECK(least.seconds == doctest::Approx(kGoldenB[i].seconds).epsilon(1e-6));
    CHECK(alpa_text(least.stages, submeshes) == kGoldenB[i].stages);
  }
}

}  // namespace alpa_stages_test
