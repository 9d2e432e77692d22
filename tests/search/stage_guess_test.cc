// Guesses of equal stages against stages that are planned.
#include "src/search/stages/stage_guess.h"

#include <doctest/doctest.h>

#include "alpa/alpa.h"
#include "src/compile/trace.h"
#include "src/ir/stages.h"
#include "src/search/stages/given_stages.h"
#include "src/search/stages/stage_search.h"
#include "support/nightly.h"
#include "support/planning_suite.h"

namespace stage_guess_test {

using namespace alpa;

namespace {

constexpr std::int64_t kMuch = std::int64_t{1} << 50;
constexpr int kLayers = 8, kBatch = 32;

TrainingStep step_of(const char* model) {
  return testing::suite_step(
      model,
      {.stack = {
           .layers = kLayers / 2, .batch = kBatch, .sequence = 256, .hidden = 1024, .heads = 16}});
}

/// Seconds of a step of so many equal stages, planned and played.
double planned_seconds(const Graph& graph, const Cluster& cluster, int stages) {
  const std::vector<inter_op::Submesh> parts =
      inter_op::equal_submeshes({cluster.num_hosts, cluster.devices_per_host}, stages);
  const cost::CostModel model = cost::CostModel::of(cluster);
  intra_op::AutoShardOptions options;
  options.part.whole_boundary_inputs = true;
  options.limits.relative_gap = 0.02;  // much less than guesses err
  intra_op::PlanningCache cache;
  StageSearchSpace question{graph, cluster};
  question.budget = kMuch;
  question.submeshes = {parts.front()};
  const std::vector<double> flops(num_layers(graph), 1);
  question.templates.push_back(inter_op::uniform_stages(flops, parts));
  StageSearch search(question, {model, options, cache});
  search.plan_equal(stages);
  return search.best_seconds();
}

}  // namespace

TEST_CASE("guesses are near what equal stages take") {
  const Cluster cluster = Cluster::named("dgx-a100", 2);
  const cost::CostModel model = cost::CostModel::of(cluster);
  for (const char* name : {"gpt", "moe"}) {
    const TrainingStep step = step_of(name);
    const inter_op::StepNeeds needs(step.trace(1), step.trace(kBatch), false, model);
    for (const int micro_batches :
         testing::sampled<std::vector<int>>({name == std::string("gpt") ? 8 : 1}, {1, 8})) {
      const Graph graph = step.trace(micro_batches);
      for (const inter_op::StageGuess& guess : inter_op::guess_stages(
               needs, micro_batches, {ScheduleKind::one_f_one_b}, cluster, model, kMuch)) {
        if (guess.stages > testing::sampled(2, 4)) continue;
        CAPTURE(name);
        CAPTURE(micro_batches);
        CAPTURE(guess.stages);
        const double ratio = guess.seconds / planned_seconds(graph, cluster, guess.stages);
        CHECK(ratio > 0.5);
        CHECK(ratio < 1.6);
      }
    }
  }
}

TEST_CASE("guesses follow the mesh of a method and the uses of its axes") {
  const Cluster cluster = Cluster::named("dgx-a100", 2);  // 16 devices
  const cost::CostModel model = cost::CostModel::of(cluster);
  const TrainingStep step = step_of("gpt");
  const inter_op::StepNeeds needs(step.trace(1), step.trace(kBatch), false, model);
  const auto guessed = [&](const inter_op::GuessedMeshes& meshes) {
    return inter_op::guess_stages(needs, 4, {ScheduleKind::one_f_one_b}, cluster, model, kMuch,
                                  meshes);
  };
  const std::vector<inter_op::StageGuess> any = guessed({});
  for (const AxisUse use : {AxisUse::data, AxisUse::zero2, AxisUse::zero3}) {
    const auto own = guessed({{2, 4}, {use, AxisUse::tensor}});
    REQUIRE(own.size() == 1);  // two stages of eight devices
    CHECK(own[0].stages == 2);
    const auto free = std::ranges::find(any, 2, &inter_op::StageGuess::stages);
    REQUIRE(free != any.end());
    CHECK(own[0].seconds >= free->seconds);
  }
  // State in parts is gathered in every micro-batch.
  CHECK(guessed({{16}, {AxisUse::zero3}})[0].seconds >
        guessed({{16}, {AxisUse::zero2}})[0].seconds);
  CHECK(guessed({{3}, {}}).empty());
}

TEST_CASE("guesses sum up over the devices of a host before sums between hosts") {
  const TrainingStep step = testing::suite_step(
      "gpt", {.stack = {.layers = 2, .batch = 768, .sequence = 512, .hidden = 1024, .heads = 16}});
  const Cluster cluster = Cluster::named("p3.16xlarge", 3);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const inter_op::StepNeeds needs(step.trace(1), step.trace(4), false, model);
  const inter_op::StageGuess one =
      inter_op::guess_stages(needs, 4, {ScheduleKind::one_f_one_b}, cluster, model, kMuch)[0];
  // With one ring through all devices it is 1.15 times what is planned.
  CHECK(one.seconds / planned_seconds(step.trace(4), cluster, 1) ==
        doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("guesses give devices whole rows") {
  const Cluster cluster = Cluster::named("dgx-a100", 2);  // 16 devices
  const cost::CostModel model = cost::CostModel::of(cluster);
  const auto seconds = [&](std::int64_t rows) {
    const TrainingStep step = testing::suite_step(
        "gpt", {.stack = {.layers = 2, .batch = rows, .sequence = 512, .hidden = 256, .heads = 4}});
    const inter_op::StepNeeds needs(step.trace(1), step.trace(2), false, model);
    CHECK(needs.rows == rows);
    return inter_op::guess_stages(needs, 1, {ScheduleKind::one_f_one_b}, cluster, model, kMuch)[0]
        .seconds;
  };
  CHECK(seconds(18) == doctest::Approx(seconds(32)).epsilon(0.05));
  CHECK(seconds(18) > 1.05 * seconds(16));
}

TEST_CASE("guesses know sums over rows inside a model, and which transfers leave a host") {
  constexpr int kRows = 64, kWidth = 256;
  const TrainingStep step = training_step(
      {{"x", {f32, {kRows, kWidth}}}, {"y", {f32, {kRows, kWidth}}}},
      [](const Batch& batch) {
        Value x = batch["x"];
        for (int layer = 0; layer < kLayers; ++layer)
          x = nn::ReLU()(nn::BatchNorm()(nn::Dense(kWidth)(x)));
        return mean(square(x - batch["y"]));
      },
      optim::Sgd{.learning_rate = 0.1});
  Cluster cluster = Cluster::named("dgx-a100", 2);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const auto traced = [&](int micro_batches) {
    MethodOptions method{.kind = MethodKind::pipeline};
    method.options.num_micro_batches = micro_batches;
    method.options.layers = AutoLayers{kLayers};
    return trace(step, method);
  };
  const inter_op::StepNeeds needs(traced(1), traced(8), false, model);
  CHECK(needs.at_many.back().tensors == 4 * kLayers);     // two of a product, two of a norm
  CHECK(needs.at_many.back().statistics >= 2 * kLayers);  // a mean and a variance, and back
  CHECK(needs.at_many.back().summed >= needs.at_many.back().statistics * kWidth * 4);
  // Updates of one micro-batch read its gradients, those of several their sums, which there are of
  // a norm's means and variances and of the loss, too.
  CHECK(needs.at_few.back().sums == 0);
  CHECK(needs.at_few.back().gradients + 2 * kLayers * kWidth * 4 + 4 == needs.at_many.back().sums);
  const auto seconds = [&](int stages) {
    for (const inter_op::StageGuess& guess :
         inter_op::guess_stages(needs, 1, {ScheduleKind::one_f_one_b}, cluster, model, kMuch))
      if (guess.stages == stages) return guess.seconds;
    return kInfinity;
  };
  const double before = seconds(8);
  cluster.between_hosts.alpha_seconds += 1;
  // One of the seven cuts lies between the hosts, and is passed forward and backward.
  CHECK(seconds(8) == doctest::Approx(before + 2).epsilon(1e-3));
}

TEST_CASE("less memory never makes a guess faster, and what state exceeds it has no guess") {
  const Cluster cluster = Cluster::named("dgx-a100");
  const cost::CostModel model = cost::CostModel::of(cluster);
  const TrainingStep step = step_of("gpt");
  const Graph few = step.trace(1), many = step.trace(kBatch);
  const inter_op::StepNeeds needs(few, many, false, model);
  double state = 0;
  for (const Input& input : many.inputs)
    if (input.kind == InputKind::state || input.kind == InputKind::accumulator)
      state += static_cast<double>(many.type(input.value).bytes());
  const auto least = [&](double budget) {
    std::vector<double> seconds;
    for (const inter_op::StageGuess& guess :
         inter_op::guess_stages(needs, 8, {ScheduleKind::one_f_one_b}, cluster, model,
                                static_cast<std::int64_t>(budget)))
      seconds.push_back(guess.seconds);
    return seconds;
  };
  std::vector<double> before = least(8 * state);
  for (const double share : {2.0, 1.0, 0.5, 0.25}) {
    const std::vector<double> now = least(share * state);
    for (std::size_t k = 0; k < now.size(); ++k) CHECK(now[k] >= before[k]);
    before = now;
  }
  for (const double seconds : least(0.9 * state / cluster.num_devices()))
    CHECK(seconds == kInfinity);
  CHECK(needs.at_many.back().parameters + needs.at_many.back().state + needs.at_many.back().sums ==
        doctest::Approx(state));
}

}  // namespace stage_guess_test
