// What evenly shared operators take bounds every plan of a step.
#include "src/search/stages/even_share.h"

#include <doctest/doctest.h>

#include "alpa/alpa.h"
#include "support/nightly.h"
#include "support/planning_suite.h"

namespace even_share_test {

using namespace alpa;

namespace {

constexpr int kBatch = 16;

double bound_of(const TrainingStep& step, const Cluster& cluster) {
  return inter_op::even_share_seconds(step.trace(1), step.trace(kBatch), cluster.num_devices(),
                                      cost::CostModel::of(cluster));
}

double seconds_of(const TrainingStep& step, const Method& method, const Cluster& cluster) {
  return plan_only(step, method, cluster).plan.cost.objective_seconds;
}

TrainingStep step_of(const char* model) {
  return testing::suite_step(
      model, {.stack = {.layers = 2, .batch = kBatch, .sequence = 32, .hidden = 64, .heads = 4},
              .vocabulary = 96,
              .experts = 4});
}

TrainingStep convolutions() {
  return training_step(
      {{"x", {f32, {kBatch, 16, 16, 3}}}},
      [](const Batch& batch) {
        const nn::Conv2d first(16, {3, 3}), second(16, {3, 3});
        return mean(square(second(relu(first(batch["x"])))));
      },
      optim::Adam{});
}

/// Parameters are converted to half precision, by micro-batches or once.
TrainingStep in_half_precision() {
  return training_step({{"x", {f32, {kBatch, 40, 96}}}},
                       [](const Batch& batch) {
                         const Value h =
                             batch["x"] + nn::Dense(96)(relu(nn::Dense(200)(batch["x"])));
                         return mean(square(nn::Dense(7)(h)));
                       },
                       optim::Adam{}, {.precision = bf16_mixed});
}

TrainingStep named(std::string_view model) {
  if (model == "convolutions") return convolutions();
  if (model == "half precision") return in_half_precision();
  return step_of(model.data());
}

}  // namespace

TEST_CASE("no plan takes less than evenly shared operators") {
  int turn = 0;  // by day each cluster and model has one number of micro-batches, in turn
  for (const Cluster& cluster : {Cluster::named("dgx-a100"), Cluster::local(4), Cluster::local(1)})
    for (const char* model :
         {"gpt", "gpt-vocabulary", "bert", "residual-mlp", "convolutions", "half precision"}) {
      CAPTURE(model);
      CAPTURE(cluster.num_devices());
      const TrainingStep step = named(model);
      const double bound = bound_of(step, cluster);
      CHECK(bound > 0);
      for (const int micro_batches :
           testing::sampled<std::vector<int>>({++turn % 5 < 2 ? 1 : 4}, {1, 2, 4, kBatch})) {
        CAPTURE(micro_batches);
        CHECK(bound <=
              seconds_of(step, ShardParallel{.num_micro_batches = micro_batches}, cluster));
        if (micro_batches > 1 && cluster.num_devices() > 1)
          CHECK(bound <= seconds_of(step,
                                    PipeshardParallel{.num_micro_batches = micro_batches,
                                                      .layers = AutoLayers{2},
                                                      .stages = UniformStages{2}},
                                    cluster));
      }
    }
}

TEST_CASE("large products on one device are near the bound") {
  const TrainingStep step = testing::suite_step(
      "residual-mlp", {.stack = {.layers = 2, .batch = 64, .sequence = 128, .hidden = 2048}});
  const Cluster cluster = Cluster::named("dgx-a100");
  const double bound = bound_of(step, cluster);
  const double best = seconds_of(step, ShardParallel{}, cluster);
  CHECK(bound <= best);
  CHECK(bound > 0.5 * best);
}

TEST_CASE("nothing is said of steps that need fewer FLOPs in smaller micro-batches") {
  const TrainingStep contrastive = training_step(
      {{"x", {f32, {kBatch, 64}}}},
      [](const Batch& batch) {
        const Value rows = nn::Dense(64)(batch["x"]);
        return mean(square(einsum("ad,bd->ab", rows, rows)));  // every row with every row
      },
      optim::Adam{});
  CHECK(bound_of(contrastive, Cluster::local(4)) == 0);
}

}  // namespace even_share_test
