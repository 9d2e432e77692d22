// Steps on batches of several shapes that count their runs together: training in length buckets.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "alpa/data/text.h"
#include "alpa/models/gpt.h"
#include "support/difference.h"
#include "support/error_text.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace step_shapes_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 8, kShort = 3, kLong = 6, kDim = 12, kClasses = 4;

/// Tokens of a row are added up, so rows may be padded with zeros. Dropout acts on the sums.
LossAndMetrics model(const Batch& b) {
  Value x = nn::Dense(24, {.name = "first"})(sum(b["x"], {1}));
  x = nn::Dropout(0.25)(nn::Tanh()(x));
  return nn::cross_entropy(nn::Dense(kClasses, {.name = "second"})(mark_pipeline_boundary(x)),
                           b["label"]);
}

/// A step for rows of `length` tokens, with a rate that depends on the number of the run.
TrainingStep step_of(std::int64_t length, bool counts_with_first = false) {
  TrainingStep step =
      training_step({{"x", {f32, {kRows, length, kDim}}}, {"label", {i32, {kRows}}}}, model,
                    optim::Adam{.learning_rate = warmup_cosine(0.05, /*warmup=*/4, /*total=*/9)});
  step.counts_with_first = counts_with_first;
  return step;
}

/// Batch `number`, of rows with `length` tokens, the rest of `whole` zeros.
BatchData batch_of(int number, std::int64_t length, std::int64_t whole) {
  std::vector<float> x;
  std::vector<std::int32_t> label;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < whole * kDim; ++i)
      x.push_back(i < length * kDim ? static_cast<float>(std::sin(number + 3 * row + i * i)) : 0);
    label.push_back(static_cast<std::int32_t>((number + row * row) % kClasses));
  }
  return {{"x", Array(x, {kRows, whole, kDim})}, {"label", Array(label, {kRows})}};
}

std::int64_t length_of(int number) { return number % 3 == 0 ? kLong : kShort; }

struct Trained {
  std::vector<double> losses;
  TrainState state;
};

/// Runs `begin` to `end` - 1 on `state`, each with the step for its length.
void run(const std::array<Executable, 2>& steps, Trained& trained, int begin, int end) {
  for (int i = begin; i < end; ++i)
    trained.losses.push_back(steps[length_of(i) == kLong ? 0 : 1]
                                 .run(trained.state, batch_of(i, length_of(i), length_of(i)))
                                 .loss());
}

void check_same(const Trained& a, const Trained& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    CHECK(a.losses[i] == doctest::Approx(b.losses[i]).epsilon(1e-5));
  for (const std::string& name : b.state.names()) {
    CAPTURE(name);
    CHECK(largest_difference(a.state[name].to_host().to_doubles(),
                             b.state[name].to_host().to_doubles(), 1) < 1e-5);
  }
}

/// One step for the longest rows, on one device: shorter ones are padded.
Trained padded(int count) {
  const Executable step =
      parallelize(step_of(kLong), Serial{.num_micro_batches = 2}, Cluster::local(1));
  Trained trained{{}, step.init(7)};
  for (int i = 0; i < count; ++i)
    trained.losses.push_back(step.run(trained.state, batch_of(i, length_of(i), kLong)).loss());
  return trained;
}

struct Plan {
  const char* name;
  Method method;
  int devices;
};

const std::vector<Plan>& plans() {
  static const std::vector<Plan> plans{
      {"one device", Serial{.num_micro_batches = 2}, 1},
      {"data", Zero3Parallel{.num_micro_batches = 2}, 4},
      {"shard", ShardParallel{.num_micro_batches = 2, .mesh_shape = {2, 2}}, 4},
      {"stages", PipeshardParallel{.num_micro_batches = 2, .stages = UniformStages{2}}, 2}};
  return plans;
}

std::array<Executable, 2> both_of(const Plan& plan) {
  return parallelize(step_of(kLong), step_of(kShort, true), plan.method,
                     Cluster::local(plan.devices));
}

}  // namespace

TEST_CASE("steps of two lengths that count together train as one on padded rows, in every plan") {
  const Trained expected = padded(9);
  for (const Plan& plan : plans()) {
    CAPTURE(plan.name);
    const auto steps = both_of(plan);
    Trained trained{{}, steps[0].init(7)};
    run(steps, trained, 0, 9);
    check_same(trained, expected);
    CHECK(trained.state.step() == 9);
  }
}

TEST_CASE("steps that count their own runs do not train as one") {
  const Trained expected = padded(3);
  const auto steps =
      parallelize(step_of(kLong), step_of(kShort), plans()[0].method, Cluster::local(1));
  Trained trained{{}, steps[0].init(7)};
  run(steps, trained, 0, 3);
  CHECK(trained.state.step() == 1);
  CHECK(std::abs(trained.losses[2] - expected.losses[2]) > 1e-3);
}

TEST_CASE("a checkpoint between steps of two lengths goes on with the right number") {
  const Trained expected = padded(9);
  const TemporaryFolder folder("step_shapes_test_saved");
  Trained trained;
  {
    const auto steps = both_of(plans()[0]);
    trained.state = steps[1].init(7);
    run(steps, trained, 0, 5);
    Checkpoints(folder.path()).save(trained.state);
  }
  const auto steps = both_of(plans()[2]);
  trained.state = steps[0].init(1);
  const Restored restored = Checkpoints(folder.path()).restore(trained.state, 5);
  CHECK(restored.metrics.at("loss") == trained.losses.back());
  CHECK(trained.state.step() == 5);
  run(steps, trained, 5, 9);
  check_same(trained, expected);
  CHECK(trained.state.step() == 9);
}

TEST_CASE("a step that counts with the first has an evaluation and short batches beside it") {
  const Plan& plan = plans()[1];
  const auto steps = parallelize(
      {step_of(kLong), evaluation_step(step_of(kLong).inputs, model), step_of(kShort, true)},
      plan.method, Cluster::local(plan.devices));
  TrainState state = steps[0].init(0);
  steps[2].run(state, batch_of(0, kShort, kShort));
  steps[1].run(state, batch_of(0, kLong, kLong));
  BatchData few = batch_of(1, kShort, kShort);
  for (auto& [name, array] : few) array = take_rows(array, std::vector<std::int64_t>{0, 1, 2});
  steps[2].run(state, few);
  steps[0].run(state, batch_of(2, kLong, kLong));
  CHECK(state.step() == 3);
}

TEST_CASE("a step that updates other state than the first cannot count with it") {
  TrainingStep other = evaluation_step(step_of(kShort).inputs, model);
  other.counts_with_first = true;
  CHECK(error_of([&] { parallelize(step_of(kLong), other, Serial{}, Cluster::local(1)); }) ==
        "step 2 counts its runs with the first (TrainingStep::counts_with_first), but only the "
        "first updates \"first.bias\"; build both alike, or let it count its own runs");
}

TEST_CASE("a loaded plan is followed by any number of steps") {
  const TemporaryFile file("step_shapes_test_plan.json", "");
  const Plan& plan = plans()[2];
  const Cluster cluster = Cluster::local(plan.devices);
  parallelize(step_of(kLong), plan.method, cluster).save_plan(file.path());
  const std::vector<TrainingStep> steps{step_of(kLong), step_of(2, true), step_of(kShort, true)};
  const std::vector<Executable> loaded = load_plan(steps, plan.method, cluster, file.path());
  REQUIRE(loaded.size() == 3);
  Trained trained{{}, loaded[1].init(7)};
  run({loaded[0], loaded[2]}, trained, 0, 4);
  check_same(trained, padded(4));
}

TEST_CASE("a run over buckets that ends anywhere goes on as if it had not") {
  constexpr std::int64_t kVocabulary = 23;
  const models::Decoder decoder(
      {.layers = 1, .hidden = 16, .heads = 2, .sequence = 16, .vocabulary = kVocabulary});
  const std::vector<std::int64_t> lengths = {4, 8, 16};
  std::vector<TextExample> documents;
  for (int size : {3, 16, 5, 9, 2, 30, 4, 4, 7, 12, 3, 6}) {
    TextExample& document = documents.emplace_back();
    for (int i = 0; i < size; ++i)
      document.tokens.push_back((size + i * i) % static_cast<int>(kVocabulary));
  }
  const Batches batches = bucketed_batches(documents, 2, lengths, /*seed=*/5);
  std::vector<TrainingStep> steps;
  for (std::int64_t length : {16, 8, 4}) {
    const TensorType ids{i32, {2, length}};
    steps.push_back(training_step(
        {{"tokens", ids}, {"labels", ids}, {"segments", ids}, {"positions", ids}},
        [&](const Batch& b) { return decoder.packed_loss(b); }, optim::Adam{}));
    steps.back().counts_with_first = steps.size() > 1;
  }
  // Up to `end` runs of two epochs.
  const auto losses = [&](const std::string& folder, std::int64_t end) {
    // Micro-batches of one row, of which some are padding alone.
    const std::vector<Executable> all =
        parallelize(steps, ShardParallel{.num_micro_batches = 2}, Cluster::local(2));
    Checkpoints saved(folder);
    TrainState state = all[0].init(1);
    std::vector<double> found;
    ResumedBatches rest = saved.resume(all[0], state, batches, 2);
    for (auto batch = rest.begin(); batch != rest.end() && state.step() < end; ++batch) {
      const std::int64_t length = batch->at("tokens").shape()[1];
      found.push_back(all[length == 16 ? 0 : length == 8 ? 1 : 2].run(state, *batch).loss());
    }
    saved.save(state);
    return found;
  };
  const TemporaryFolder whole_folder("step_shapes_test_whole"), folder("step_shapes_test_parts");
  const std::int64_t all = 2 * batches.size(), cut = batches.size() / 2;
  const std::vector<double> whole = losses(whole_folder.path(), all);
  std::vector<double> parts = losses(folder.path(), cut);
  const std::vector<double> rest = losses(folder.path(), all);
  parts.insert(parts.end(), rest.begin(), rest.end());
  REQUIRE(batches.size() > 4);
  CHECK(whole.size() == static_cast<std::size_t>(all));
  CHECK(parts == whole);
  CHECK(std::ranges::all_of(whole, [](double loss) { return std::isfinite(loss); }));
}

}  // namespace step_shapes_test
