// Planning of an encoder-decoder whose every decoder layer reads what the encoder gives, with
// everything left to the planner: layers, stages and micro-batches.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/encoder_decoder.h"
#include "support/nightly.h"

namespace encoder_decoder_test {

using namespace alpa;
using testing::encoder_decoder::encoder_decoder_step;

namespace {

constexpr std::int64_t kRows = 16;

/// Two towers that meet in a product, with skips over their layers.
TrainingStep two_towers() {
  const auto tower = [](const std::vector<nn::Dense>& layers, Value x) {
    std::vector<Value> skips;
    for (const nn::Dense& layer : layers) skips.push_back(x = relu(layer(x)));
    for (const Value& skip : skips) x = x + skip;
    return x;
  };
  const std::vector<nn::Dense> left(4, nn::Dense(24)), right(3, nn::Dense(24));
  const TensorType type{f32, {kRows, 24}};
  return training_step(
      {{"a", type}, {"b", type}},
      [=](const Batch& b) { return mean(square(tower(left, b["a"]) * tower(right, b["b"]))); },
      optim::Adam{});
}

struct Planned {
  CompiledStep step;
  std::vector<PlanningProgress> reports;
};

Planned plan(const TrainingStep& step, int devices, PipeshardParallel method) {
  Planned result;
  method.progress = [&](const PlanningProgress& now) { result.reports.push_back(now); };
  result.step = plan_only(step, method, Cluster::local(devices));
  return result;
}

const PipeshardParallel kEverything{.num_micro_batches = kAutoMicroBatches,
                                    .layers = AutoLayers{},
                                    .stages = AutoStages{},
                                    .solver_seconds = 600};  // under sanitizers, too

}  // namespace

TEST_CASE("one search finds layers, stages and micro-batches of an encoder-decoder") {
  for (int devices : testing::sampled<std::vector<int>>({2, 5}, {2, 5, 8})) {
    CAPTURE(devices);
    const Planned found = plan(encoder_decoder_step(), devices, kEverything);
    REQUIRE(!found.reports.empty());
    for (std::size_t i = 1; i < found.reports.size(); ++i) {
      const PlanningProgress &now = found.reports[i], &before = found.reports[i - 1];
      CHECK(now.lower_bound_seconds >= before.lower_bound_seconds);
      CHECK(now.best_seconds <= before.best_seconds);
      CHECK(now.searches >= before.searches);
      CHECK(now.seconds_left <= before.seconds_left);  // one limit for all numbers together
    }
    const PlanningProgress& last = found.reports.back();
    CHECK(last.searches <= last.ranges / 4);  // five numbers: most are ruled out by quick bounds
    // What few micro-batches take at least is known less well: updates are a large share.
    CHECK(last.gap() <= 0.3);
    CHECK(found.step.plan.cost.gap() <= 0.3);
    if (devices == 2)  // the same again
      CHECK(to_json(plan(encoder_decoder_step(), devices, kEverything).step) ==
            to_json(found.step));
  }
}

TEST_CASE("no number of micro-batches has better stages than the one that is chosen") {
  for (const TrainingStep& step : {encoder_decoder_step(), two_towers()}) {
    const int devices = testing::sampled(2, 4);
    const Planned found = plan(step, devices, kEverything);
    const double best = found.reports.back().best_seconds;
    const int chosen = found.step.graph.num_micro_batches, next = chosen == 1 ? 2 : chosen / 2;
    for (int number : testing::sampled<std::vector<int>>({chosen, next}, {1, 2, 4, 8, 16})) {
      CAPTURE(number);
      PipeshardParallel method = kEverything;
      method.num_micro_batches = number;
      const PlanningProgress alone = plan(step, devices, method).reports.back();
      CHECK(alone.best_seconds >= best * (1 - kEverything.relative_gap));
      if (number == chosen) CHECK(alone.best_seconds <= best * (1 + kEverything.relative_gap));
    }
  }
}

TEST_CASE("a search over many devices looks at those parts alone that stages may be on") {
  const auto step = training_step(
      {{"x", {f32, {256, 64}}}},
      [dense = nn::Dense(64)](const Batch& b) { return mean(square(dense(b["x"]))); },
      optim::Sgd{});
  const Planned found = plan(step, 128, {.stages = AutoStages{}});
  CHECK(found.step.plan.stages.size() == 1);
  // a single layer is on all devices: one search for each logical mesh of the 128
  CHECK(found.reports.back().searches <= 7);
}

}  // namespace encoder_decoder_test
