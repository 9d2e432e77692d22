// Lower bounds on schedules of a given pipeline, against the schedules played on a clock.
#include "src/search/bound/path_bound.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "src/plan/evaluation/stage_seconds.h"

namespace path_bound_test {

using namespace alpa;

namespace {

struct Pipeline {
  int micro_batches = 1;
  std::vector<StageSeconds> stages = {};
  std::vector<double> transfers = {};  ///< there and back
};

/// Stages of about 1 + 3 seconds, transfers of up to `transfer` each way.
Pipeline random_pipeline(std::mt19937& random, bool equal, double transfer) {
  const auto between = [&](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  constexpr int kMicroBatches[] = {1, 2, 3, 4, 8, 16, 38, 64};
  Pipeline pipeline{.micro_batches = kMicroBatches[random() % std::size(kMicroBatches)]};
  for (int stages = 1 + static_cast<int>(random() % 16); stages > 0; --stages) {
    const double forward = equal ? 1 : between(0.5, 1), backward = forward * between(2.7, 3.3);
    pipeline.stages.push_back({.forward = forward,
                               .backward = backward,
                               .weights = backward * between(0, 1),
                               .apply = between(0, 2)});
    if (stages > 1) pipeline.transfers.push_back(2 * between(0, transfer));
  }
  return pipeline;
}

/// Seconds that this pipeline takes at least.
double path_bound(ScheduleKind kind, const Pipeline& pipeline) {
  const auto& [micro_batches, stages, transfers] = pipeline;
  inter_op::PathSchedule schedule{kind, micro_batches, 0};
  for (const StageSeconds& stage : stages) schedule.once = std::max(schedule.once, stage.apply);
  inter_op::PathSums sums;
  const int count = static_cast<int>(stages.size());
  for (int s = count - 1; s >= 0; --s) {
    const StageSeconds& of = stages[s];
    const double runs = of.forward + (kind == ScheduleKind::inference ? 0 : of.backward);
    sums = schedule.with_stage(sums,
                               {.least = runs,
                                .most = runs,
                                .forward = of.forward,
                                .backward = runs - of.forward,
                                .alone = micro_batches * runs + schedule.once},
                               s + 1 < count ? transfers[s] : 0, schedule.in_flight(count - 1 - s));
  }
  return sums.step;
}

/// Mean and largest share of what is played that the bound of 400 random pipelines lacks.
std::pair<double, double> gaps(ScheduleKind kind, bool equal, double transfer) {
  std::mt19937 random(1);
  constexpr int kPipelines = 400;
  double sum = 0, most = 0;
  for (int i = 0; i < kPipelines; ++i) {
    const Pipeline pipeline = random_pipeline(random, equal, transfer);
    const double bound = path_bound(kind, pipeline);
    const double played =
        played_seconds(kind, pipeline.micro_batches)(pipeline.stages, pipeline.transfers);
    CHECK(bound <= played * (1 + 1e-9));
    sum += 1 - bound / played, most = std::max(most, 1 - bound / played);
  }
  return {sum / kPipelines, most};
}

}  // namespace

TEST_CASE("no path takes longer than its schedule; the longest takes nearly as long") {
  for (const bool equal : {true, false})
    for (const double transfer : {0.02, 0.8}) {
      CAPTURE(equal);
      CAPTURE(transfer);
      for (const ScheduleKind exact : {ScheduleKind::gpipe, ScheduleKind::inference})
        CHECK(gaps(exact, equal, transfer).second < 1e-9);
      const double mean = transfer > 0.1 ? 0.01 : 1e-3;
      CHECK(gaps(ScheduleKind::one_f_one_b, equal, transfer).first < mean);
      CHECK(gaps(ScheduleKind::one_f_one_b_overlap, equal, transfer).first < mean);
      CHECK(gaps(ScheduleKind::zero_bubble, equal, transfer).first < 0.4);
    }
}

TEST_CASE("of equal stages the bound of 1F1B is the bubble of stages - 1 micro-batches") {
  for (const int micro_batches : {1, 3, 8, 50}) {
    const Pipeline pipeline{
        micro_batches,
        std::vector<StageSeconds>(5, {.forward = 1, .backward = 2, .apply = 0.5}),
        {0, 0, 0, 0}};
    CHECK(path_bound(ScheduleKind::one_f_one_b, pipeline) ==
          doctest::Approx(3 * (micro_batches + 4) + 0.5));
  }
}

}  // namespace path_bound_test
