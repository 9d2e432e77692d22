// Several steps on one state: evaluation along the plan of training, and batches of fewer rows.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "support/difference.h"
#include "support/error_text.h"
#include "support/temporary_file.h"

namespace shared_steps_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kDim = 12, kClasses = 4;

/// The layers of a small classifier, with dropout that evaluation must leave out.
struct Classifier {
  nn::Dense first{24}, second{kDim}, last{kClasses};

  LossAndMetrics operator()(const Batch& b) const {
    const Value hidden = nn::Dropout(0.25)(nn::ReLU()(first(b["x"])));
    const Value logits = last(nn::ReLU()(second(hidden)) + b["x"]);
    return {nn::cross_entropy(logits, b["label"]),
            {{"accuracy", nn::accuracy(logits, b["label"])}}};
  }
};

std::vector<BatchInput> inputs(std::int64_t rows) {
  return {{"x", {f32, {rows, kDim}}}, {"label", {i32, {rows}}}};
}

/// Rows `first` to `first + rows` - 1 of an endless table.
std::map<std::string, Array> examples(std::int64_t first, std::int64_t rows) {
  std::vector<float> x;
  std::vector<std::int32_t> label;
  for (std::int64_t i = first; i < first + rows; ++i) {
    for (std::int64_t d = 0; d < kDim; ++d)
      x.push_back(static_cast<float>(std::sin(static_cast<double>(i * kDim + d * d))));
    label.push_back(static_cast<std::int32_t>(i * i % kClasses));
  }
  return {{"x", Array(x, {rows, kDim})}, {"label", Array(label, {rows})}};
}

TrainingStep training(const Classifier& model, std::int64_t rows) {
  return training_step(inputs(rows), model, optim::Adam{.learning_rate = 0.01});
}

/// Metrics of one device on the parameters of `trained`.
std::map<std::string, double> serial(const Classifier& model, const TrainState& trained,
                                     const std::map<std::string, Array>& batch) {
  const auto step = evaluation_step(inputs(batch.at("label").elements()), model);
  const Executable evaluate = parallelize(step, Serial{}, Cluster::local(1));
  TrainState state = evaluate.init(0);
  REQUIRE(state.copy_from(trained) == 6);
  return evaluate.run(state, batch).metrics.values();
}

void check_equal(const std::map<std::string, double>& a, const std::map<std::string, double>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, value] : b) {
    CAPTURE(name);
    CHECK(a.at(name) == doctest::Approx(value).epsilon(1e-5));
  }
}

const std::vector<std::pair<int, Method>>& methods() {
  static const std::vector<std::pair<int, Method>> methods{
      {2, DataParallel{}},
      {3, Zero3Parallel{.num_micro_batches = 2}},
      {4, ShardParallel{.num_micro_batches = 2, .mesh_shape = {2, 2}}},
      {4, Zero2Parallel{.mesh_shape = {2, 2}}}};
  return methods;
}

}  // namespace

TEST_CASE("evaluation on the state of training equals evaluation on one device") {
  for (const auto& [devices, method] : methods()) {
    const Classifier model;
    CAPTURE(devices);
    const auto [train, evaluate] = parallelize(
        training(model, 24), evaluation_step(inputs(36), model), method, Cluster::local(devices));
    TrainState state = train.init(3);
    for (int i = 0; i < 4; ++i) {
      train.run(state, examples(24 * i, 24));
      const auto batch = examples(1000, 36);
      check_equal(evaluate.run(state, batch).metrics.values(), serial(model, state, batch));
    }
    CHECK(state.step() == 4);
  }
}

TEST_CASE("a step that follows is not searched, and takes no memory of its own") {
  for (const auto& [devices, method] : methods()) {
    const Classifier model;
    CAPTURE(devices);
    int found = 0;
    Method counting = method;
    std::visit([&](auto& m) { m.progress = [&](const PlanningProgress&) { ++found; }; }, counting);
    const Executable alone = parallelize(training(model, 24), counting, Cluster::local(devices));
    const int found_alone = std::exchange(found, 0);
    const auto [train, evaluate] = parallelize(
        training(model, 24), evaluation_step(inputs(24), model), counting, Cluster::local(devices));
    CHECK(found == found_alone);
    const PlannerStatistics& search = evaluate.plan().sharding().statistics;
    CHECK(search.nodes + search.strategies + search.variables + search.constraints == 0);
    CHECK(to_string(evaluate.plan()).ends_with(", along the plan of another step"));
    for (const std::string& name : parameter_names(evaluate.graph()))
      CHECK(evaluate.sharding_of(name) == train.sharding_of(name));

    TrainState state = train.init(0);
    train.run(state, examples(0, 24));
    CHECK(train.measured_bytes(state) == alone.memory_bytes());
    evaluate.run(state, examples(0, 24));
    CHECK(evaluate.memory_bytes() <= train.memory_bytes());
    CHECK(evaluate.measured_bytes(state) == alone.memory_bytes());
  }
}

TEST_CASE("evaluation of a large batch takes what it needs beside the state, and no more") {
  const Classifier model;
  const auto [train, evaluate] = parallelize(
      training(model, 8), evaluation_step(inputs(4096), model), Zero3Parallel{}, Cluster::local(2));
  TrainState state = evaluate.init(0);
  train.run(state, examples(0, 8));
  const auto batch = examples(100, 4096);
  check_equal(evaluate.run(state, batch).metrics.values(), serial(model, state, batch));
  CHECK(evaluate.memory_bytes() > train.memory_bytes());
  CHECK(evaluate.measured_bytes(state) == evaluate.memory_bytes());
}

TEST_CASE("neither evaluation nor a short batch disturbs training") {
  const Classifier model;
  const Executable alone = parallelize(training(model, 24), Zero2Parallel{}, Cluster::local(3));
  const auto [train, evaluate] = parallelize(
      training(model, 24), evaluation_step(inputs(24), model), Zero2Parallel{}, Cluster::local(3));
  TrainState expected = alone.init(1), state = evaluate.init(1);
  for (int i = 0; i < 3; ++i) {
    evaluate.run(state, examples(0, i + 1));
    CHECK(train.run(state, examples(24 * i, 24)).loss() ==
          alone.run(expected, examples(24 * i, 24)).loss());
  }
  for (const std::string& name : expected.names())
    CHECK(state[name].to_host().to_doubles() == expected[name].to_host().to_doubles());
}

TEST_CASE("metrics of a batch of fewer rows are means over these rows") {
  for (const auto& [devices, method] : methods()) {
    CAPTURE(devices);
    const Classifier model;
    const auto [train, evaluate] = parallelize(
        training(model, 24), evaluation_step(inputs(24), model), method, Cluster::local(devices));
    TrainState state = train.init(5);
    train.run(state, examples(0, 24));
    for (const std::int64_t rows : {23, 12, 1}) {
      CAPTURE(rows);
      const auto batch = examples(50, rows);
      check_equal(evaluate.run(state, batch).metrics.values(), serial(model, state, batch));
    }
    CHECK(evaluate.measured_bytes(state) == train.memory_bytes());
  }
}

TEST_CASE("training takes batches of fewer rows, as one device would") {
  for (const auto& [devices, method] : methods()) {
    CAPTURE(devices);
    const nn::Sequential model{nn::Dense(24), nn::Tanh(), nn::Dense(kClasses)};
    const auto step = [&](std::int64_t rows) {
      return training_step(
          inputs(rows),
          [=](const Batch& b) { return nn::cross_entropy(model(b["x"]), b["label"]); },
          optim::Sgd{.learning_rate = 0.1, .momentum = 0.9}, {.clip_global_norm = 1});
    };
    const Executable train = parallelize(step(24), method, Cluster::local(devices));
    TrainState state = train.init(5);
    for (const std::int64_t rows : {24, 18, 13, 4, 24}) {
      CAPTURE(rows);
      const Executable one = parallelize(step(rows), Serial{}, Cluster::local(1));
      TrainState expected = one.init(0);
      REQUIRE(expected.copy_from(state) == 8);
      const auto batch = examples(state.step() * 24, rows);
      const double loss = one.run(expected, batch).loss();
      CHECK(train.run(state, batch).loss() == doctest::Approx(loss).epsilon(1e-5));
      for (const std::string& name : expected.names()) {
        CAPTURE(name);
        CHECK(largest_difference(expected[name].to_host().to_doubles(),
                                 state[name].to_host().to_doubles(), 1) < 1e-6);
      }
    }
    CHECK(state.step() == 5);
    CHECK(train.measured_bytes(state) == train.memory_bytes());
  }
}

TEST_CASE("a batch of fewer rows is cut into micro-batches that fit beside the state") {
  const nn::Sequential model{nn::Dense(512), nn::Tanh(), nn::Dense(kClasses)};
  const auto loss = [=](const Batch& b) { return nn::cross_entropy(model(b["x"]), b["label"]); };
  const auto step = [&](std::int64_t rows) {
    return training_step(inputs(rows), loss, optim::Sgd{});
  };
  const Executable train =
      parallelize(step(256), DataParallel{.num_micro_batches = 4}, Cluster::local(2));
  TrainState state = train.init(0);
  for (const std::int64_t rows : {192, 129}) {
    const Executable one = parallelize(step(rows), DataParallel{}, Cluster::local(2));
    CHECK(one.memory_bytes() > train.memory_bytes());
    TrainState expected = one.init(0);
    expected.copy_from(state);
    CHECK(train.run(state, examples(0, rows)).loss() ==
          doctest::Approx(one.run(expected, examples(0, rows)).loss()).epsilon(1e-5));
  }
  CHECK(train.measured_bytes(state) == train.memory_bytes());
}

TEST_CASE("three steps on one state: training, evaluation and a step that writes state") {
  const Classifier model;
  const TrainingStep halving = custom_step(inputs(6), [=](Builder& graph, const Batch& b) {
    graph.set_training(false);
    graph.metric("loss", mean_over_micro_batches("loss", model(b).loss));
    graph.set_region(Region::apply);
    for (const Value& parameter : graph.parameters()) graph.update(parameter, parameter * 0.5);
  });
  const auto [train, evaluate, halve] =
      parallelize({training(model, 24), evaluation_step(inputs(24), model), halving},
                  ShardParallel{.num_micro_batches = 2}, Cluster::local(4));
  TrainState state = train.init(0);
  const Array before = state["dense1.kernel"];
  const auto expected = serial(model, state, examples(0, 6));
  CHECK(halve.run(state, examples(0, 6)).loss() == doctest::Approx(expected.at("loss")));
  const Array after = state["dense1.kernel"];
  for (std::int64_t i = 0; i < kDim; ++i)
    CHECK(after.at<float>(i, i) == before.at<float>(i, i) / 2);
  check_equal(evaluate.run(state, examples(9, 24)).metrics.values(),
              serial(model, state, examples(9, 24)));
  CHECK(state.step() == 0);
}

TEST_CASE("a loaded plan is followed, too") {
  const Classifier model;
  const TemporaryFile file("shared_steps_test.json", "");
  const Method method = Zero3Parallel{};
  parallelize(training(model, 24), method, Cluster::local(2)).save_plan(file.path());
  const auto [train, evaluate] = load_plan(training(model, 24), evaluation_step(inputs(24), model),
                                           method, Cluster::local(2), file.path());
  TrainState state = train.init(0);
  check_equal(evaluate.run(state, examples(0, 24)).metrics.values(),
              serial(model, state, examples(0, 24)));
}

TEST_CASE("steps that cannot share a state") {
  const Classifier model;
  const auto error = [&](const TrainingStep& second, const Method& method) {
    return error_of([&] { parallelize(training(model, 24), second, method, Cluster::local(2)); });
  };
  const auto with = [&](const nn::Dense& layer) {
    return evaluation_step(inputs(24), [=](const Batch& b) {
      return nn::cross_entropy(layer(nn::ReLU()(model.first(b["x"]))), b["label"]);
    });
  };
  CHECK(
      error(with(nn::Dense(kClasses)), Serial{}) ==
      "a step that shares the state of another reads \"dense1.kernel\" as f32[24, 4], but there it "
      "is f32[24, 12]; build both from the same layers, or call parallelize for each");
  const TrainingStep other = evaluation_step(inputs(24), [](const Batch& b) {
    const Value w = b.builder().parameter("w", {f32, {kDim, kClasses}}, zeros);
    return nn::cross_entropy(matmul(b["x"], w), b["label"]);
  });
  CHECK(
      error(other, DataParallel{}) ==
      "a step that shares the state of another reads \"w\", which that one lacks; build both from "
      "the same layers, or call parallelize for each");
  const TrainingStep large = evaluation_step(inputs(4096), model);
  const std::int64_t bytes =
      parallelize(training(model, 24), large, DataParallel{}, Cluster::local(2))[1].memory_bytes();
  CHECK(error(large, DataParallel{.memory_budget_bytes = bytes - 1}) ==
        fmt::format("step 2 needs {} bytes per device with the state it shares, 1 more than the "
                    "memory budget of {}; give it a smaller batch, or raise the budget",
                    bytes, bytes - 1));
}

TEST_CASE("batches with more rows, or different numbers of them, are refused as before") {
  const Classifier model;
  const Executable train = parallelize(training(model, 24), DataParallel{}, Cluster::local(2));
  TrainState state = train.init(0);
  CHECK(error_of([&] { train.run(state, examples(0, 25)); }) ==
        "batch input \"x\" is f32[25, 12], but the step takes f32[24, 12]");
  auto batch = examples(0, 12);
  batch["label"] = examples(0, 11)["label"];
  CHECK(error_of([&] { train.run(state, batch); }) ==
        "batch input \"x\" is f32[12, 12], but the step takes f32[24, 12]");
}

}  // namespace shared_steps_test
