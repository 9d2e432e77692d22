// Three steps of every optimizer, and schedules, against Optax and torch:
// tests/golden/optimizers.py.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "support/golden.h"

namespace golden_optimizers_test {

using namespace alpa;

namespace {

constexpr double kTolerance = 1e-5;

const TensorFile& golden() {
  static const TensorFile file(testing::golden_path("optimizers.safetensors"));
  return file;
}

double difference(const Array& actual, const Array& expected) {
  REQUIRE(actual.shape() == expected.shape());
  const std::vector<double> a = actual.to_doubles(), b = expected.to_doubles();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  return largest;
}

Array as_row(const Array& array) {
  Shape shape = array.shape();
  shape.insert(shape.begin(), 1);
  return Array(array.elements_as<double>(), shape).cast(f32);
}

/// The step whose gradients are its inputs "dkernel" and "dbias".
TrainingStep step_of(const Optimizer& optimizer, StepOptions options) {
  return training_step(
      {{"dkernel", {f32, {1, 5, 7}}}, {"dbias", {f32, {1, 7}}}},
      [](const Batch& b) {
        const Value kernel = b.builder().parameter("kernel", {f32, {5, 7}}, zeros),
                    bias = b.builder().parameter("bias", {f32, {7}}, zeros);
        return sum(b["dkernel"] * kernel) + sum(b["dbias"] * bias);
      },
      optimizer, std::move(options));
}

/// Compares the parameters after each of three steps with those of `name`.
TrainState check(const std::string& name, const Optimizer& optimizer, StepOptions options = {}) {
  CAPTURE(name);
  const Executable train =
      parallelize(step_of(optimizer, std::move(options)), Serial{}, Cluster::local(1));
  TrainState state = train.init(0);
  load_weights(state, golden(), {{"kernel", {"start.kernel"}}, {"bias", {"start.bias"}}});
  for (int step = 1; step <= 3; ++step) {
    CAPTURE(step);
    const std::string gradient = fmt::format("gradient.{}.", step);
    train.run(state, {{"dkernel", as_row(golden()[gradient + "kernel"])},
                      {"dbias", as_row(golden()[gradient + "bias"])}});
    for (const char* parameter : {"kernel", "bias"})
      CHECK(difference(state[parameter], golden()[fmt::format("{}.{}.{}", name, step, parameter)]) <
            kTolerance);
  }
  return state;
}

void check_schedule(const std::string& name, const Schedule& schedule) {
  CAPTURE(name);
  const Array expected = golden()["schedule." + name];
  for (std::int64_t step = 1; step <= expected.elements(); ++step)
    CHECK(schedule(step) == doctest::Approx(expected.at<double>(step - 1)).epsilon(1e-6));
}

}  // namespace

TEST_CASE("optimizers take Optax's steps") {
  check("sgd", optim::Sgd{.learning_rate = 0.1});
  check("momentum", optim::Sgd{.learning_rate = 0.1, .momentum = 0.9});
  check("nesterov", optim::Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
  check("lamb", optim::Lamb{.learning_rate = 0.05, .weight_decay = 0.1});
  check("lion", optim::Lion{.learning_rate = 0.05, .weight_decay = 0.1});
  check("adafactor", optim::Adafactor{.learning_rate = 0.05, .min_factored_extent = 4});
  check("adafactor_momentum",
        optim::Adafactor{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01});
}

TEST_CASE("adam, its weight decay, masks, clipping and averages are Optax's") {
  const optim::AdamW adamw{.learning_rate = 0.05, .weight_decay = 0.1};
  const TrainState state = check("adam", optim::Adam{.learning_rate = 0.05}, {.ema = 0.8});
  for (const std::string parameter : {"kernel", "bias"})
    CHECK(difference(state[parameter + ".ema"], golden()["adam.ema." + parameter]) < kTolerance);
  check("adamw", adamw);
  check("adamw_masked", adamw,
        {.groups = {{"bias", optim::AdamW{.learning_rate = 0.05, .weight_decay = 0}}}});
  check("adamw_clipped", adamw, {.clip_global_norm = 0.5});
}

TEST_CASE("Muon takes torch's steps, of wide, tall and stacked matrices, split or whole") {
  const std::pair<const char*, optim::Muon> cases[] = {
      {"muon", {.learning_rate = 0.05}},
      {"muon_plain", {.learning_rate = 0.05, .weight_decay = 0, .nesterov = false}},
      {"muon_matched", {.learning_rate = 0.05, .momentum = 0.8, .match_adamw = true}}};
  for (const auto& [name, muon] : cases)
    for (const int devices : {1, 4}) {
      CAPTURE(std::string(name));
      CAPTURE(devices);
      const TrainingStep step = training_step(
          {{"dwide", {f32, {1, 5, 7}}}},
          [](const Batch& b) {
            const Value d = b["dwide"];
            const Value wide = b.builder().parameter("wide", {f32, {5, 7}}, zeros),
                        tall = b.builder().parameter("tall", {f32, {7, 5}}, zeros),
                        stacked = b.builder().parameter("stacked", {f32, {2, 5, 7}}, zeros),
                        bias = b.builder().parameter("bias", {f32, {7}}, zeros);
            return sum(d * wide) + sum(transpose(d, {0, 2, 1}) * tall) + sum(d * stacked) +
                   sum(d * bias);
          },
          muon);
      const Executable train = parallelize(step, ShardParallel{}, Cluster::local(devices));
      TrainState state = train.init(0);
      const Array start = golden()["start.kernel"].cast(f32);
      state["wide"] = start;
      load_weights(state, golden(), {{"tall", {"start.kernel"}, true}});
      std::vector<float> both(start.elements_as<float>().begin(), start.elements_as<float>().end());
      both.insert(both.end(), both.begin(), both.begin() + 35);
      state["stacked"] = Array(both, {2, 5, 7});
      for (int at = 1; at <= 3; ++at) {
        train.run(state, {{"dwide", as_row(golden()[fmt::format("gradient.{}.kernel", at)])}});
        const Array expected = golden()[fmt::format("{}.{}.kernel", name, at)];
        CHECK(difference(state["wide"], expected) < kTolerance);
        CHECK(difference(state["tall"], golden()[fmt::format("{}.{}.tall", name, at)]) <
              kTolerance);
        const std::vector<double> stacked = state["stacked"].to_host().to_doubles();
        for (std::size_t i = 0; i < 70; ++i)
          CHECK(stacked[i] == doctest::Approx(expected.to_doubles()[i % 35]).epsilon(1e-5));
      }
      CHECK(state["bias"].to_host().to_doubles() != std::vector<double>(7, 0.0));
    }
}

TEST_CASE("schedules are Optax's") {
  check_schedule("warmup_cosine", warmup_cosine(1, 4, 12, 0.2));
  check_schedule("warmup_linear", warmup_linear(1, 4, 12, 0.2));
  check_schedule("warmup_constant", warmup_constant(1, 4));
}

}  // namespace golden_optimizers_test
