// Training in several processes in memory: data, state, outputs, evaluation and times.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <mutex>
#include <set>

#include "support/processes.h"
#include "support/staged_mlp.h"

namespace training_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 8, kWidth = 12, kExamples = 20;

/// Row i is a function of i alone.
BatchData examples(std::span<const std::int64_t> rows) {
  Array x(TensorType{f32, {std::ssize(rows), kWidth}});
  std::span<float> elements = x.mutable_elements_as<float>();
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] =
        static_cast<float>((rows[i / kWidth] * 7 + static_cast<std::int64_t>(i % kWidth)) % 11) /
        11;
  return {{"x", x}};
}

struct Outcome {
  std::vector<double> losses;
  std::vector<double> weights;
  std::vector<double> seen;  ///< elements of the batches
  bool operator==(const Outcome&) const = default;
};

Outcome train(const Method& method, const Batches& batches) {
  const Executable step = parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(4));
  TrainState state = step.init(3);
  Outcome outcome;
  for (const auto& batch : batches.epoch(0)) {
    outcome.losses.push_back(step.run(state, batch).loss());
    for (const double x : batch.at("x").to_doubles()) outcome.seen.push_back(x);
  }
  for (const DistributedArray& parameter : state.parameters())
    for (const double x : parameter.to_host().to_doubles()) outcome.weights.push_back(x);
  CHECK(step.measured_bytes(state) == step.memory_bytes());
  CHECK(step.measured_traffic().size() == step.traffic().size());
  const bool sums = processes::world() && step.traffic().contains("all_reduce");
  CHECK((step.exchange_bytes() > 0) >= sums);
  CHECK((step.exchange_bytes() == 0 || processes::world()));
  return outcome;
}

const Method kMethods[] = {DataParallel{}, Zero2Parallel{.num_micro_batches = 2}, ShardParallel{},
                           PipeshardParallel{.num_micro_batches = 2}};

}  // namespace

TEST_CASE("every process loads its own rows of a batch, and all see the whole") {
  for (const Method& method : kMethods) {
    const Outcome alone = train(method, batches(kExamples, examples, kRows, 5));
    for (const int size : {2, 3, 4}) {
      CAPTURE(size);
      std::mutex mutex;
      std::multiset<std::int64_t> loaded;
      const auto load = [&](std::span<const std::int64_t> rows) {
        const std::lock_guard lock(mutex);
        loaded.insert(rows.begin(), rows.end());
        return examples(rows);
      };
      std::vector<Outcome> outcomes(size);
      const auto errors = run_processes(size, [&](int rank) {
        outcomes[rank] = train(method, batches(kExamples, load, kRows, 5));
      });
      for (int rank = 0; rank < size; ++rank) {
        CHECK(errors[rank] == "");
        CHECK(outcomes[rank] == alone);
      }
      for (std::int64_t row = 0; row < kExamples; ++row) CHECK(loaded.count(row) == 1);
    }
  }
}

TEST_CASE("outputs, evaluation and the times of a step are whole in every process") {
  const auto errors = run_processes(2, [](int) {
    ExecutorOptions executor;
    executor.record_times = true;
    const auto model = nn::Sequential().add(nn::Dense(5)).add(nn::ReLU()).add(nn::Dense(3));
    const TrainingStep training = training_step(
        {{"x", {f32, {kRows, kWidth}}}},
        [model](const Batch& b) { return mean(square(model(b["x"]))); }, optim::Sgd{});
    const TrainingStep prediction = prediction_step(
        {{"x", {f32, {kRows, kWidth}}}}, [model](const Batch& b) { return model(b["x"]); });
    const auto [train, predict] =
        parallelize(training, prediction, ShardParallel{.executor = executor}, Cluster::local(4));
    TrainState state = train.init(1);
    const std::vector<std::int64_t> rows = {0, 1, 2, 3, 4, 5, 6, 7};
    train.run(state, examples(rows));
    CHECK(train.trace().find("device 3") != std::string::npos);
    CHECK(predict.run(state, examples(rows)).outputs["prediction"].shape() == Shape{kRows, 3});
    const std::vector<std::int64_t> few = {4, 1, 9};
    CHECK(predict.run(state, examples(few)).outputs["prediction"].shape() == Shape{3, 3});
  });
  for (const std::string& error : errors) CHECK(error == "");
}

}  // namespace training_test
