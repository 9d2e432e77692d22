// Batches of fewer rows than a step was planned for, with layers whose numbers depend on the
// micro-batch: they are the same under every plan.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/difference.h"
#include "support/error_text.h"
#include "support/temporary_file.h"

namespace short_batches_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kDim = 8, kClasses = 5, kIgnored = -100;

/// Four blocks between pipeline boundaries, each with one of the layers in question.
struct Mixed {
  nn::Dense first{kDim}, second{kDim}, third{kDim}, last{kClasses};
  nn::BatchNorm norm{{.epsilon = 0.1}};
  nn::MoE experts{2, 6, {.choices = 1}};

  LossAndMetrics operator()(const Batch& b) const {
    const Value a = mark_pipeline_boundary(nn::Dropout(0.3)(tanh(first(b["x"]))));
    const Value n = mark_pipeline_boundary(norm(second(a)));
    const nn::MoEOutput routed = experts(tanh(n));
    const Value h = mark_pipeline_boundary(n + routed.y);
    const Value logits = last(tanh(third(h)) + b["x"]);
    const Value loss = nn::cross_entropy(logits, b["label"], {.ignored_label = kIgnored});
    return {loss + routed.balance_loss * 0.01, {{"largest", max(logits, {0, 1})}}};
  }
};

std::vector<BatchInput> inputs(std::int64_t rows) {
  return {{"x", {f64, {rows, kDim}}}, {"label", {i32, {rows}}}};
}

/// Rows `first` to `first + rows` - 1 of an endless table; every third has no label.
std::map<std::string, Array> examples(std::int64_t first, std::int64_t rows) {
  std::vector<double> x;
  std::vector<std::int32_t> label;
  for (std::int64_t i = first; i < first + rows; ++i) {
    for (std::int64_t d = 0; d < kDim; ++d)
      x.push_back(std::sin(static_cast<double>(i * kDim + d * d)));
    label.push_back(static_cast<std::int32_t>(i % 3 == 0 ? kIgnored : i * i % kClasses));
  }
  return {{"x", Array(x, {rows, kDim})}, {"label", Array(label, {rows})}};
}

TrainingStep training(const Mixed& model, std::int64_t rows) {
  return training_step(inputs(rows), model, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9});
}

struct Layout {
  const char* name;
  int devices;
  Method method;
};

/// Every method, and every schedule of training, with so many micro-batches.
std::vector<Layout> layouts(int n) {
  std::vector<Layout> all{
      {"serial", 1, Serial{.num_micro_batches = n}},
      {"data", 2, DataParallel{.num_micro_batches = n}},
      {"zero2", 3, Zero2Parallel{.num_micro_batches = n}},
      {"zero3", 2, Zero3Parallel{.num_micro_batches = n}},
      {"shard", 4, ShardParallel{.num_micro_batches = n, .mesh_shape = {2, 2}}}};
  for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                            ScheduleKind::one_f_one_b_overlap, ScheduleKind::zero_bubble}) {
    PipeshardParallel stages{.num_micro_batches = n};
    stages.schedule = kind;
    all.push_back({name_of(kind).data(), 2, stages});
  }
  PipeshardParallel interleaved{.num_micro_batches = n};
  interleaved.stages = UniformStages{4, 2};
  interleaved.schedule = ScheduleKind::interleaved_one_f_one_b;
  all.push_back({"interleaved_1f1b", 2, interleaved});
  return all;
}

/// Metrics of training and evaluation on batches of so many rows in turns, then all parameters and
/// statistics.
std::vector<double> numbers_of(const Mixed& model, const Layout& layout, std::int64_t batch,
                               const std::vector<std::int64_t>& rows) {
  const auto [train, evaluate] =
      parallelize(training(model, batch), evaluation_step(inputs(batch), model), layout.method,
                  Cluster::local(layout.devices));
  TrainState state = train.init(3);
  std::vector<double> numbers;
  for (std::int64_t count : rows)
    for (const Executable* step : {&train, &evaluate})
      for (const auto& [name, value] : step->run(state, examples(count, count)).metrics.values())
        numbers.push_back(value);
  CHECK(train.measured_bytes(state) == std::max(train.memory_bytes(), evaluate.memory_bytes()));
  std::vector<std::string> names = state.names();
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::vector<double> values = state[name].to_host().to_doubles();
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

}  // namespace

TEST_CASE("a short batch has the same numbers under every method and schedule") {
  const Mixed model;
  for (const auto& [batch, parts, rows] :
       {std::tuple(64, 4, std::vector<std::int64_t>{64, 60, 59, 33, 7}),
        std::tuple(12, 4, std::vector<std::int64_t>{12, 8, 7, 9, 1, 12})}) {
    std::vector<double> expected;
    for (const Layout& layout : layouts(parts)) {
      CAPTURE(std::string(layout.name));
      CAPTURE(batch);
      const std::vector<double> found = numbers_of(model, layout, batch, rows);
      if (expected.empty()) expected = found;
      CHECK(largest_difference(found, expected, 1) < 1e-9);
    }
  }
}

TEST_CASE(
    "a short batch is cut into the fewest equal micro-batches that are no larger than those of "
    "the whole batch") {
  struct Case {
    std::int64_t batch, rows;
    int parts, short_parts;
  };
  for (const Case& c : {Case{64, 60, 4, 4},
                        {64, 32, 4, 2},
                        {64, 59, 4, 59},
                        {64, 9, 4, 1},
                        {12, 10, 3, 5},
                        {12, 11, 1, 1}}) {
    CAPTURE(c.rows);
    const Mixed model;
    const Executable whole = parallelize(
        training(model, c.batch), DataParallel{.num_micro_batches = c.parts}, Cluster::local(2));
    const Executable alone = parallelize(
        training(model, c.rows), Serial{.num_micro_batches = c.short_parts}, Cluster::local(1));
    TrainState state = whole.init(5), expected = alone.init(5);
    for (int n = 0; n < 2; ++n)
      CHECK(whole.run(state, examples(n, c.rows)).loss() ==
            doctest::Approx(alone.run(expected, examples(n, c.rows)).loss()).epsilon(1e-9));
    for (const std::string& name : expected.names())
      CHECK(largest_distance(state[name].to_host(), expected[name].to_host()) < 1e-9);
  }
}

TEST_CASE("batch normalisation of micro-batches of one row stays finite") {
  const Mixed model;
  const Executable train =
      parallelize(training(model, 8), DataParallel{.num_micro_batches = 4}, Cluster::local(2));
  TrainState state = train.init(0);
  for (const std::int64_t rows : {7, 8, 5, 3}) {
    CHECK(std::isfinite(train.run(state, examples(rows, rows)).loss()));
    for (const std::string& name : state.names())
      for (double value : state[name].to_host().to_doubles()) CHECK(std::isfinite(value));
  }
}

TEST_CASE("a loaded plan cuts short batches as the plan that was saved") {
  const Mixed model;
  const TemporaryFile file("short_batches_test.json", "");
  PipeshardParallel method{.num_micro_batches = 4};
  method.schedule = ScheduleKind::gpipe;
  const auto losses = [&](const Executable& train) {
    TrainState state = train.init(3);
    std::vector<double> values;
    for (const std::int64_t rows : {16, 14, 13, 16})
      values.push_back(train.run(state, examples(0, rows)).loss());
    return values;
  };
  const Executable planned = parallelize(training(model, 16), method, Cluster::local(2));
  planned.save_plan(file.path());
  const Executable read = load_plan(training(model, 16), method, Cluster::local(2), file.path());
  CHECK(losses(read) == losses(planned));
}

namespace {

/// A prediction per row: every micro-batch has a slot for its own, 64 bytes at least.
TrainingStep prediction(const nn::Dense& layer, std::int64_t rows) {
  return prediction_step({{"x", {f32, {rows, 2}}}}, [=](const Batch& b) { return layer(b["x"]); });
}

std::map<std::string, Array> points(std::int64_t rows) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < 2 * rows; ++i) x.push_back(std::sin(static_cast<float>(i)));
  return {{"x", Array(x, {rows, 2})}};
}

}  // namespace

TEST_CASE(
    "a short batch in many micro-batches gets the memory that it needs, and the state stays") {
  for (const auto& [devices, method] :
       {std::pair(1, Method(Serial{.num_micro_batches = 4})),
        std::pair(2, Method(Zero3Parallel{.num_micro_batches = 4}))}) {
    CAPTURE(devices);
    const nn::Dense layer(2);
    const Executable predict = parallelize(prediction(layer, 64), method, Cluster::local(devices));
    const std::int64_t planned = predict.memory_bytes();
    TrainState state = predict.init(3), later = predict.init(3);
    const std::vector<double> all =
        predict.run(state, points(64)).outputs["prediction"].to_doubles();
    CHECK(predict.measured_bytes(state) == planned);
    const std::vector<double> some =
        predict.run(state, points(59)).outputs["prediction"].to_doubles();
    CHECK(largest_distance(some, {all.begin(), all.begin() + 2 * 59}) < 1e-6);
    CHECK(predict.memory_bytes() > planned);
    CHECK(predict.measured_bytes(state) == predict.memory_bytes());
    CHECK(predict.run(state, points(64)).outputs["prediction"].to_doubles() == all);
    CHECK(predict.run(later, points(59)).outputs["prediction"].to_doubles() == some);
  }
}

TEST_CASE("a short batch that exceeds the memory budget is refused, and the state stays usable") {
  const nn::Dense layer(2);
  Serial method{.num_micro_batches = 4};
  const std::int64_t planned =
      parallelize(prediction(layer, 64), method, Cluster::local(1)).memory_bytes();
  const Executable roomy = parallelize(prediction(layer, 64), method, Cluster::local(1));
  TrainState other = roomy.init(0);
  roomy.run(other, points(59));
  method.memory_budget_bytes = planned;
  const Executable predict = parallelize(prediction(layer, 64), method, Cluster::local(1));
  TrainState state = predict.init(0);
  CHECK(error_of([&] { predict.run(state, points(59)); }) ==
        fmt::format("a batch of 59 rows needs {} bytes per device, {} more than the memory budget "
                    "of {}; leave it out (BatchOptions::drop_last), choose a batch that divides "
                    "the data, or raise the budget",
                    roomy.memory_bytes(), roomy.memory_bytes() - planned, planned));
  CHECK(predict.run(state, points(64)).outputs["prediction"].to_doubles() ==
        roomy.run(other, points(64)).outputs["prediction"].to_doubles());
}

}  // namespace short_batches_test
