// AdamW's moments in few bits: against torchao's AdamW8bit (tests/golden/optimizers.py), and
// against what rounding at random promises.
#include <alpa/alpa.h>
#include <alpa/models/gpt.h>
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "support/golden.h"
#include "support/temporary_folder.h"

namespace few_bits_test {

using namespace alpa;
using optim::Moments;

namespace {

constexpr int kSteps = 3, kRows = 4;

/// The step whose gradient with respect to "w" is the sum of x.
TrainingStep step_of(const Shape& shape, const Optimizer& optimizer, DType dtype = f32) {
  Shape row = shape;
  row.insert(row.begin(), kRows);
  return training_step(
      {{"x", {dtype, row}}},
      [=](const Batch& b) {
        return sum(b["x"] * b.builder().parameter("w", {dtype, shape}, zeros));
      },
      optimizer);
}

Array filled(const Shape& shape, const std::function<double(double)>& f) {
  std::vector<double> x(num_elements(shape));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = f(static_cast<double>(i));
  return Array(x, shape).cast(f32);
}

/// A batch whose first row is f, and whose others are 0.
BatchData gradient_of(Shape shape, const std::function<double(double)>& f, DType dtype = f32) {
  const auto elements = static_cast<double>(num_elements(shape));
  shape.insert(shape.begin(), kRows);
  return {{"x", filled(shape, [&](double i) { return i < elements ? f(i) : 0; }).cast(dtype)}};
}

/// The gradient of a step in optimizers.py, of five decades.
BatchData golden_gradient(int step) {
  return gradient_of({4, 4, 256}, [=](double i) {
    return std::sin(i * (0.11 + 0.05 * step) + step) * std::pow(10.0, -std::fmod(i, 5));
  });
}

const TensorFile& golden() {
  static const TensorFile file(testing::golden_path("optimizers.safetensors"));
  return file;
}

double largest_difference(const Array& actual, const Array& expected) {
  const std::vector<double> a = actual.to_doubles(), b = expected.to_doubles();
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  return largest;
}

/// Bytes that the first device holds of states that end in `suffix`.
std::int64_t bytes_held(const Executable& train, std::string_view suffix) {
  std::int64_t bytes = 0;
  const ShardingPlan& plan = train.plan().sharding();
  for (const Input& input : train.graph().inputs)
    if (input.name.ends_with(suffix))
      bytes += shard_bytes(train.graph().type(input.value), plan.specs[input.value], plan.mesh);
  return bytes;
}

/// The methods that divide state in different ways.
const std::vector<std::pair<Method, int>>& methods() {
  static const std::vector<std::pair<Method, int>> all = {
      {Serial{}, 1},        {DataParallel{}, 4},
      {Zero2Parallel{}, 4}, {Zero3Parallel{}, 4},
      {ShardParallel{}, 4}, {ShardParallel{.shard_optimizer_state = true}, 4}};
  return all;
}

/// Three steps of gradient 1 + 2^-10 i, from zeros.
TrainState after_steps(const Executable& train, std::uint64_t seed, const Shape& shape) {
  TrainState state = train.init(seed);
  for (int step = 1; step <= kSteps; ++step)
    train.run(state, gradient_of(shape, [=](double i) { return step + i / 1024; }));
  return state;
}

/// Tokens and labels of a chain that goes on in one of four ways: at best a loss of log 4.
BatchData chain(int step, std::int64_t rows, std::int64_t tokens, std::int32_t vocabulary) {
  std::mt19937 random(static_cast<unsigned>(step));
  std::vector<std::int32_t> x, y;
  for (std::int64_t row = 0; row < rows; ++row) {
    auto token = static_cast<std::int32_t>(random() % vocabulary);
    for (std::int64_t t = 0; t < tokens; ++t) {
      x.push_back(token);
      token = static_cast<std::int32_t>((5 * token + random() % 4) % vocabulary);
      y.push_back(token);
    }
  }
  return {{"tokens", Array(x, {rows, tokens})}, {"labels", Array(y, {rows, tokens})}};
}

/// The losses of a small GPT.
std::vector<double> losses(Moments moments, int steps, const Method& method = Serial{},
                           int devices = 1) {
  constexpr std::int64_t kBatch = 8, kTokens = 16, kVocabulary = 64;
  const models::Decoder network(
      {.layers = 2, .hidden = 64, .heads = 4, .sequence = kTokens, .vocabulary = kVocabulary});
  const TensorType type{i32, {kBatch, kTokens}};
  const TrainingStep step = training_step(
      {{"tokens", type}, {"labels", type}},
      [&](const Batch& b) { return network.loss(b["tokens"], b["labels"]); },
      optim::AdamW{.learning_rate = 3e-3, .moments = moments});
  const Executable train = parallelize(step, method, Cluster::local(devices));
  TrainState state = train.init(1);
  std::vector<double> values;
  for (int i = 0; i < steps; ++i)
    values.push_back(train.run(state, chain(i, kBatch, kTokens, kVocabulary)).loss());
  CHECK(train.memory_bytes() == train.measured_bytes(state));
  return values;
}

}  // namespace

TEST_CASE("AdamW in 8 bits takes torchao's steps, however state is divided") {
  const optim::AdamW adamw{
      .learning_rate = 0.05, .weight_decay = 0.1, .moments = Moments::eight_bit};
  for (const auto& [method, devices] : methods()) {
    CAPTURE(devices);
    const Executable train =
        parallelize(step_of({4, 4, 256}, adamw), method, Cluster::local(devices));
    CAPTURE(train.plan().sharding().method);
    TrainState state = train.init(0);
    state["w"] = filled({4, 4, 256}, [](double i) { return std::cos(i * 0.37); });
    for (int step = 1; step <= kSteps; ++step) train.run(state, golden_gradient(step));
    // Values of codes are computed, within 5e-7 of torchao's table. Where v's code is 0, a step is
    // up to 1 / sqrt(1 - beta2), 32 times as large as the learning rate.
    CHECK(largest_difference(state["w"], golden()["adamw_8bit"]) < 32 * 5e-7 * 2);
    for (const std::string moment : {"m", "v"}) {
      CAPTURE(moment);
      CHECK(largest_difference(state["w.adam_" + moment], golden()["adamw_8bit." + moment]) == 0);
      CHECK(largest_difference(state["w.adam_" + moment + "_scale"],
                               golden()["adamw_8bit." + moment + "_scale"]) < 1e-7);
    }
    CHECK(train.memory_bytes() == train.measured_bytes(state));
  }
}

TEST_CASE("moments in 8 bits take a byte an element and four for each 256, divided by ZeRO") {
  const auto compiled = [](const Shape& shape, const Method& method, int devices) {
    return parallelize(step_of(shape, optim::AdamW{.moments = Moments::eight_bit}), method,
                       Cluster::local(devices));
  };
  const Executable whole = compiled({32, 512}, DataParallel{}, 4),
                   split = compiled({32, 512}, Zero2Parallel{}, 4);
  CHECK(bytes_held(whole, ".adam_m") == 32 * 512);
  CHECK(bytes_held(whole, ".adam_v_scale") == 32 * 512 / 256 * 4);
  CHECK(bytes_held(split, ".adam_m") == 32 * 512 / 4);
  CHECK(bytes_held(split, ".adam_v_scale") == 32 * 512 / 256);
  // The last dimensions that 256 divides make blocks: 64 rows of 4 here; none of 4,097 elements.
  CHECK(bytes_held(compiled({1200, 4}, Serial{}, 1), ".adam_m") == 4800 * 4);
  CHECK(bytes_held(compiled({1280, 4}, Serial{}, 1), ".adam_m") == 5120);
  CHECK(bytes_held(compiled({16, 255}, Serial{}, 1), ".adam_m") == 16 * 255 * 4);
}

TEST_CASE("a small GPT's losses with moments in few bits are within 1 % of those in f32") {
  const std::vector<double> full = losses(Moments::full, 60);
  CHECK(full.back() < 0.7 * full.front());
  for (const Moments moments : {Moments::bf16, Moments::eight_bit}) {
    CAPTURE(static_cast<int>(moments));
    const std::vector<double> few = losses(moments, 60);
    for (std::size_t i = 0; i < few.size(); ++i) {
      CAPTURE(i);
      CHECK(few[i] == doctest::Approx(full[i]).epsilon(0.01));
    }
    CHECK(few.back() != full.back());
    for (const auto& [method, devices] : methods()) {
      const std::vector<double> divided = losses(moments, 5, method, devices);
      for (std::size_t i = 0; i < divided.size(); ++i)
        CHECK(divided[i] == doctest::Approx(few[i]).epsilon(1e-3));
    }
  }
}

TEST_CASE("moments that are rounded at random are neighbours, whose mean is the moment in f32") {
  constexpr int kSeeds = 200;
  const Shape shape{64};
  const Executable exact = parallelize(step_of(shape, optim::AdamW{}), Serial{}, Cluster::local(1));
  const Executable train = parallelize(step_of(shape, optim::AdamW{.moments = Moments::bf16}),
                                       Serial{}, Cluster::local(1));
  const TrainState reference = after_steps(exact, 0, shape);
  for (const std::string moment : {"w.adam_m", "w.adam_v"}) {
    CAPTURE(moment);
    const std::vector<double> expected = reference[moment].to_host().to_doubles();
    std::vector<double> sum(64), squares(64);
    for (int seed = 0; seed < kSeeds; ++seed) {
      const std::vector<double> x = after_steps(train, seed, shape)[moment].to_host().to_doubles();
      for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(std::abs(x[i] / expected[i] - 1) < 3 * 0.0079);  // three roundings of a last place
        sum[i] += x[i] - expected[i];
        squares[i] += (x[i] - expected[i]) * (x[i] - expected[i]);
      }
    }
    // The mean of all elements, in standard errors of each: a sum of 64 of about one.
    double chi_squared = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double error = std::sqrt(squares[i]) / kSeeds;
      CHECK(std::abs(sum[i] / kSeeds) < 4.5 * error);
      chi_squared += sum[i] / kSeeds * sum[i] / kSeeds / (error * error);
    }
    CHECK(chi_squared < 64 + 4 * std::sqrt(2 * 64));
    CHECK(chi_squared > 64 - 4 * std::sqrt(2 * 64));
  }
}

TEST_CASE("a resumed run rounds as one that was never broken, and another seed otherwise") {
  const Shape shape{64};
  const TrainingStep step = step_of(shape, optim::AdamW{.moments = Moments::bf16});
  const auto bits = [](const TrainState& state) {
    return state["w.adam_v"].to_host().to_doubles();
  };
  const Executable train = parallelize(step, DataParallel{}, Cluster::local(2)),
                   resumed = parallelize(step, Zero2Parallel{}, Cluster::local(4));
  const BatchData x = gradient_of(shape, [](double i) { return 1 + i / 1024; });
  const testing::TemporaryFolder folder("few_bits_test");
  Checkpoints saved(folder.path(), {.notify = [](const std::string&) {}});
  TrainState whole = after_steps(train, 7, shape), broken = resumed.init(99);
  CHECK(bits(whole) != bits(after_steps(train, 8, shape)));
  saved.save(whole);
  saved.wait();
  saved.restore(broken, saved.newest().value());
  for (int i = 0; i < kSteps; ++i) train.run(whole, x), resumed.run(broken, x);
  CHECK(bits(whole) == bits(broken));
}

TEST_CASE("a parameter in bf16 moves by less than its last place, on average") {
  const Shape shape{4096};
  const auto moved = [&](Moments moments) {
    const Executable train = parallelize(
        step_of(shape, optim::AdamW{.learning_rate = 1e-4, .weight_decay = 0, .moments = moments},
                bf16),
        Serial{}, Cluster::local(1));
    TrainState state = train.init(3);
    state["w"] = filled(shape, [](double) { return 1; }).cast(bf16);
    const BatchData x = gradient_of(
        shape, [](double) { return 1; }, bf16);
    for (int step = 0; step < 10; ++step) train.run(state, x);
    double sum = 0;
    for (const double w : state["w"].to_host().to_doubles()) sum += 1 - w;
    return sum / 4096;
  };
  CHECK(moved(Moments::full) == 0);  // 1 - 1e-4 is nearest to 1
  // Steps of Adam by equal gradients are of the learning rate. Last places are 2^-8 below 1, of
  // which the mean of 4,096 has a standard deviation of less than 2^-8 · sqrt(0.26 / 4096).
  CHECK(std::abs(moved(Moments::bf16) - 1e-3) < 4 * std::pow(2, -8) * std::sqrt(0.26 / 4096));
}

}  // namespace few_bits_test
