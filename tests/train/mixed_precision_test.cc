// Mixed precision: f32 parameters, half-precision layers; static and dynamic loss scales.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

namespace mixed_precision_test {

using namespace alpa;

namespace {

/// A decoder-like model of odd sizes: embedded ids, residual layers, the table as tied head.
struct OddModel {
  nn::Embedding table{11, 7};
  nn::LayerNorm norm{1e-5}, last_norm{1e-5};
  nn::Dense up{13}, down{7};

  LossAndMetrics operator()(const Batch& b) const {
    const Value x = table(b["ids"]);
    const Value h = x + down(gelu(up(norm(x))));
    const Value logits = matmul(last_norm(h), transpose(table.table(h)));
    const Value chosen = log_softmax(nn::at_least_f32(logits)) * one_hot(b["labels"], 11);
    return {-1 * mean(sum(chosen, {-1})), {{"accuracy", nn::accuracy(logits, b["labels"])}}};
  }
};

const std::vector<BatchInput> kIds = {{"ids", {i32, {6, 5}}}, {"labels", {i32, {6, 5}}}};

std::map<std::string, Array> id_batch(int number) {
  std::vector<std::int32_t> ids(30), labels(30);
  for (int i = 0; i < 30; ++i) ids[i] = (7 * i + number) % 11, labels[i] = (3 * ids[i] + 1) % 11;
  return {{"ids", Array(ids, {6, 5})}, {"labels", Array(labels, {6, 5})}};
}

/// The losses of 12 steps.
std::vector<double> losses(const StepOptions& options, const Method& method, int devices) {
  const TrainingStep step =
      training_step(kIds, OddModel{}, optim::AdamW{.learning_rate = 0.02}, options);
  const Executable train = parallelize(step, method, Cluster::local(devices));
  TrainState state = train.init(3);
  std::vector<double> result;
  for (int i = 0; i < 12; ++i) result.push_back(train.run(state, id_batch(i)).loss());
  return result;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}

/// The step whose gradient with respect to "w" is "x", in the layers' precision.
TrainingStep linear_step(StepOptions options) {
  return training_step(
      {{"x", {f32, {1, 3}}}},
      [](const Batch& b) {
        const Value x = b["x"], w = b.builder().parameter("w", {x.dtype(), {3}}, ones);
        return sum(cast(x * w, f32));
      },
      optim::Adam{.learning_rate = 0.125}, std::move(options));
}

std::map<std::string, Array> row(float a, float b, float c) {
  return {{"x", Array(std::vector<float>{a, b, c}, {1, 3})}};
}

std::vector<std::vector<double>> contents(const TrainState& state,
                                          const std::vector<std::string>& names) {
  std::vector<std::vector<double>> result;
  for (const std::string& name : names) result.push_back(state[name].to_host().to_doubles());
  return result;
}

const std::vector<std::string> kTrained = {"w", "w.adam_m", "w.adam_v"};

}  // namespace

TEST_CASE("mixed precision keeps parameters, gradients and optimizer state in f32") {
  for (Precision precision : {bf16_mixed, f16_mixed}) {
    const TrainingStep step =
        training_step(kIds, OddModel{}, optim::AdamW{}, {.precision = precision});
    const Graph graph = step.trace(2);
    for (const Input& input : graph.inputs) {
      CAPTURE(input.name);
      if (input.kind == InputKind::state || input.kind == InputKind::accumulator)
        CHECK(graph.type(input.value).dtype == f32);
    }
    int in_half = 0;
    for (const Node& node : graph.nodes)
      if (node.name.find("einsum") != std::string::npos)
        in_half += size_of(graph.type(node.results[0]).dtype) == 2;
    CHECK(in_half == 9);  // three products, each with two gradients
  }
}

TEST_CASE("bf16_mixed follows f32 to bf16's precision, on 1 to 8 devices and in micro-batches") {
  const std::vector<double> f32_losses = losses({}, Serial{}, 1);
  CHECK(f32_losses.back() < 0.9 * f32_losses.front());
  const StepOptions mixed{.precision = bf16_mixed};
  CHECK(largest_difference(losses(mixed, Serial{}, 1), f32_losses) < 0.01);
  CHECK(largest_difference(losses(mixed, Serial{.num_micro_batches = 3}, 1), f32_losses) < 0.01);
  for (int devices : {2, 3, 8}) {
    CAPTURE(devices);
    CHECK(largest_difference(losses(mixed, ShardParallel{}, devices), f32_losses) < 0.01);
  }
}

TEST_CASE("f16_mixed follows f32 to f16's precision, also in pipeline stages") {
  const std::vector<double> f32_losses = losses({}, Serial{}, 1);
  const StepOptions mixed{.precision = f16_mixed, .loss_scale = LossScale{.initial = 1024}};
  CHECK(largest_difference(losses(mixed, Serial{}, 1), f32_losses) < 2e-3);
  CHECK(largest_difference(losses(mixed, ShardParallel{}, 4), f32_losses) < 2e-3);
  const PipeshardParallel stages{
      .num_micro_batches = 2, .layers = AutoLayers{2}, .stages = UniformStages{2}};
  CHECK(largest_difference(losses(mixed, stages, 2), f32_losses) < 2e-3);
}

TEST_CASE("a static scale saves gradients that f16 can't hold") {
  const auto moved = [](double scale) {
    const TrainingStep step = linear_step(
        {.precision = f16_mixed, .loss_scale = LossScale{.initial = scale, .dynamic = false}});
    const Executable train = parallelize(step, Serial{}, Cluster::local(1));
    TrainState state = train.init(0);
    train.run(state, row(0x1p-20F, 0x1p-24F, 0x1p-26F));
    return contents(state, {"w"})[0];
  };
  // Adam's first step has the length of the learning rate wherever the gradient is not 0: x·scale
  // is 0 in f16 below 2^-25.
  CHECK(moved(1)[2] == 1);
  CHECK(moved(1024)[2] == doctest::Approx(0.875).epsilon(0.2));
}

TEST_CASE("a dynamic scale skips exactly the step that overflows") {
  const StepOptions options{.precision = f16_mixed,
                            .loss_scale = LossScale{.initial = 1024, .growth_interval = 2},
                            .ema = 0.5};
  const TrainingStep reference_step = linear_step({});
  for (int devices : {1, 3}) {
    CAPTURE(devices);
    const Executable train =
        parallelize(linear_step(options), ShardParallel{}, Cluster::local(devices));
    const Executable reference = parallelize(reference_step, Serial{}, Cluster::local(1));
    TrainState state = train.init(0), expected = reference.init(0);
    const auto check_equal = [&] {
      const auto actual = contents(state, kTrained), wanted = contents(expected, kTrained);
      for (std::size_t i = 0; i < actual.size(); ++i)
        for (std::size_t j = 0; j < 3; ++j)
          CHECK(actual[i][j] == doctest::Approx(wanted[i][j]).epsilon(1e-6));
    };
    const auto good = row(0.5F, -2, 3), large = row(1, 100, -0.25F);
    CHECK(train.run(state, good).metrics["loss_scale"] == 1024);
    reference.run(expected, good);
    check_equal();
    const auto before = contents(state, {"w", "w.adam_m", "w.adam_v", "w.ema"});
    CHECK(train.run(state, large).metrics["loss_scale"] == 1024);  // 100 · 1024 is beyond f16
    CHECK(contents(state, {"w", "w.adam_m", "w.adam_v", "w.ema"}) == before);
    CHECK(train.run(state, large).metrics["loss_scale"] == 512);
    reference.run(expected, large);  // Adam counts the steps that were taken
    check_equal();
    CHECK(train.run(state, good).metrics["loss_scale"] == 512);
    reference.run(expected, good);
    check_equal();
    CHECK(train.run(state, good).metrics["loss_scale"] == 1024);  // two good steps doubled it
  }
}

TEST_CASE("batches in f32 reach layers in half precision, numbers and predictions stay f32") {
  const nn::Dense dense(2);
  const TrainingStep step = prediction_step({{"x", {f32, {4, 3}}}, {"gain", {f32, {}}, false}},
                                            [&](const Batch& b) {
                                              CHECK(b["x"].dtype() == bf16);
                                              CHECK(b["gain"].dtype() == f32);
                                              return Predictions(dense(b["x"]));
                                            },
                                            {.precision = bf16_mixed});
  const Executable predict = parallelize(step, Serial{}, Cluster::local(1));
  TrainState state = predict.init(0);
  const std::map<std::string, Array> batch = {{"x", Array(std::vector<float>(12, 1.0F), {4, 3})},
                                              {"gain", Array(1.0F)}};
  CHECK(predict.run(state, batch).outputs["prediction"].dtype() == f32);
  CHECK(state["dense0.kernel"].type().dtype == f32);
}

TEST_CASE("a layer that asks for f32 parameters gets them in mixed precision") {
  const nn::LayerId id;
  const TrainingStep step = training_step(
      {{"x", {f32, {4, 3}}}},
      [&](const Batch& b) {
        const nn::Scope in(b["x"], id, "router");
        const Value w = in.parameter("w", {3, 2}, ones, f32), u = in.parameter("u", {3}, ones);
        CHECK(w.dtype() == f32);
        CHECK(u.dtype() == bf16);
        return mean(matmul(cast(b["x"] * u, f32), w));
      },
      optim::Sgd{}, {.precision = bf16_mixed});
  CHECK(step.trace(1).inputs.size() >= 3);
}

TEST_CASE("a step that may be skipped keeps two copies of one parameter at a time, not of all") {
  static constexpr int kLayers = 12, kWidth = 96;
  const auto bytes_with = [&](LossScale scale) {
    const TrainingStep step = training_step({{"x", {f32, {4, kWidth}}}},
                                            [](const Batch& batch) {
                                              Value x = batch["x"];
                                              for (int layer = 0; layer < kLayers; ++layer)
                                                x = relu(nn::Dense(kWidth)(x));
                                              return mean(x * x);
                                            },
                                            optim::Adam{}, {.loss_scale = scale});
    return parallelize(step, ShardParallel{}, Cluster::local(1)).memory_bytes();
  };
  const std::int64_t kernel = kWidth * kWidth * 4;  // new parameter and both moments
  const std::int64_t fixed = bytes_with({.dynamic = false}),
                     dynamic = bytes_with({.dynamic = true});
  CHECK(dynamic - fixed <= 3 * kernel + kernel / 2);
}

}  // namespace mixed_precision_test
