// Uniform stages against brute force, manual ones as given, and their errors.
#include "src/search/stages/given_stages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "support/error_text.h"

namespace given_stages_test {

using namespace alpa;
using namespace alpa::testing;
using inter_op::GivenStages;
using inter_op::manual_stages;
using inter_op::StagePartition;
using inter_op::Submesh;
using inter_op::uniform_stages;

namespace {

/// Largest FLOPs of a stage, and the sum of squares.
using Balance = std::pair<double, double>;

Balance balance_of(const std::vector<double>& flops, const StagePartition& partition) {
  Balance balance{0, 0};
  for (const inter_op::Stage& stage : partition.stages) {
    double sum = 0;
    for (int layer = stage.first_layer; layer <= stage.last_layer; ++layer) sum += flops[layer];
    balance.first = std::max(balance.first, sum);
    balance.second += sum * sum;
  }
  return balance;
}

/// The best balance over all subsets of cuts.
Balance brute_force(const std::vector<double>& flops, int stages) {
  const int layers = static_cast<int>(flops.size());
  Balance best{1e9, 1e9};
  for (unsigned cuts = 0; cuts < 1U << (layers - 1); ++cuts) {
    if (std::popcount(cuts) + 1 != stages) continue;
    StagePartition partition;
    for (int layer = 0, first = 0; layer < layers; ++layer)
      if (layer + 1 == layers || (cuts >> layer & 1) != 0) {
        partition.stages.push_back({first, layer, {}});
        first = layer + 1;
      }
    best = std::min(best, balance_of(flops, partition));
  }
  return best;
}

const Submesh kEight = {1, 8};

StagePartition on_equal_parts(const std::vector<double>& flops, int stages,
                              const Submesh& cluster) {
  return uniform_stages(flops, equal_submeshes(cluster, stages));
}

}  // namespace

TEST_CASE("uniform stages have equal parts of the cluster and balanced FLOPs") {
  CHECK(to_string(on_equal_parts({1, 1, 1, 1, 1, 1}, 4, kEight)) ==
        "[layers 0-0 on 1x2] [layers 1-1 on 1x2] [layers 2-3 on 1x2] [layers 4-5 on 1x2]");
  CHECK(to_string(on_equal_parts({1, 1, 4, 1, 1}, 2, {4, 4})) ==
        "[layers 0-1 on 2x4] [layers 2-4 on 2x4]");
  CHECK(to_string(on_equal_parts({1, 1, 1}, 3, {1, 3})) ==
        "[layers 0-0 on 1x1] [layers 1-1 on 1x1] [layers 2-2 on 1x1]");
  // Nearly equal parts of one host, and FLOPs per device.
  CHECK(to_string(on_equal_parts({1, 1, 1, 1, 1, 1, 1}, 2, {1, 7})) ==
        "[layers 0-3 on 1x4] [layers 4-6 on 1x3]");
  CHECK(to_string(on_equal_parts({2, 1, 3}, 2, {1, 3})) ==
        "[layers 0-1 on 1x2] [layers 2-2 on 1x1]");
  // FLOPs 28, 24, 6; the least squares would have 21, 7, 30.
  CHECK(to_string(on_equal_parts({5, 16, 7, 0, 24, 6}, 3, {1, 3})) ==
        "[layers 0-2 on 1x1] [layers 3-4 on 1x1] [layers 5-5 on 1x1]");
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> flops(1 + random() % 8);
    for (double& f : flops) f = static_cast<double>(random() % 10);
    const int stages = 1 + static_cast<int>(random() % flops.size());
    const StagePartition partition = on_equal_parts(flops, stages, {1, stages});
    CHECK(static_cast<int>(partition.stages.size()) == stages);
    CHECK(balance_of(flops, partition) == brute_force(flops, stages));
  }
}

TEST_CASE("manual stages are the given ones") {
  CHECK(to_string(manual_stages({{{0, 1, 2}, {3}}, {{1, 1}, {1, 4}}, {{1}, {2, 2}}}, 4, {1, 5})) ==
        "[layers 0-2 on 1x1, configuration 0] [layers 3-3 on 1x4, configuration 1]");
  CHECK(to_string(manual_stages({{{0}, {1, 2}}, {}}, 3, {2, 4})) ==
        "[layers 0-0 on 1x4] [layers 1-2 on 1x4]");
}

TEST_CASE("uniform stages that the cluster or the model cannot have are errors") {
  CHECK(error_of([] {
          on_equal_parts({1, 1}, 3, {1, 3});
        }) == "uniform stages: 3 stages of 2 layers; give between 1 and 2");
  CHECK(error_of([] {
          on_equal_parts({1, 1}, 2, {3, 4});
        }) ==
        "uniform stages: 2 stages cannot have equal parts of cluster 3x4 (12 devices); give a "
        "number of stages with whole hosts or equal parts of a host, or manual stages");
}

TEST_CASE("manual stages with layers missing, twice, unknown or out of order are errors") {
  const auto error = [](const std::vector<std::vector<int>>& layers) {
    return error_of([&] { manual_stages({layers, {}}, 4, kEight); });
  };
  CHECK(error({{0, 1}, {3}}) ==
        "manual stages: layer 2 is in no stage; give each of the 4 layers once");
  CHECK(error({{0, 1}, {1, 2, 3}}) ==
        "manual stages: layer 1 is in stage 0 and in stage 1; give each layer once");
  CHECK(error({{0, 1, 2, 3}, {4}}) ==
        "manual stages: stage 1 has layer 4, but the model has layers 0 to 3");
  CHECK(error({{0, 1, 2, 3}, {}}) ==
        "manual stages: stage 1 has no layers; give it one or leave it out");
  CHECK(error({{0, 2}, {1, 3}}) ==
        "manual stages: stage 0 has layer 2 where layer 1 is expected; give consecutive layers in "
        "ascending order");
  CHECK(error({}) == "manual stages: layer 0 is in no stage; give each of the 4 layers once");
}

TEST_CASE("manual stages whose submeshes or logical shapes do not fit are errors") {
  const auto error = [](const GivenStages& given) {
    return error_of([&] { manual_stages(given, 2, kEight); });
  };
  CHECK(error({{{0}, {1}}, {{1, 4}, {1, 2}}}) ==
        "submeshes 1x4, 1x2 have 6 devices, the cluster 1x8 has 8; stages must use each device "
        "once");
  CHECK(error({{{0}, {1}}, {{1, 8}}}) ==
        "manual stages: layers of 2 stages, 1 submeshes and 0 logical shapes; give one of each per "
        "stage, or none");
  CHECK(error({{{0}, {1}}, {{1, 4}, {1, 4}}, {{4}}}) ==
        "manual stages: layers of 2 stages, 2 submeshes and 1 logical shapes; give one of each per "
        "stage, or none");
  CHECK(error({{{0}, {1}}, {{1, 4}, {1, 4}}, {{4}, {2, 3}}}) ==
        "manual stages: stage 1 has logical shape 2x3 on submesh 1x4; give one of 4 devices");
}

}  // namespace given_stages_test
