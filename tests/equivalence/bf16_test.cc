// Training in bf16: every method computes what one device computes, to
// bf16's precision, and learns.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "support/difference.h"

namespace bf16_test {

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 40, kInputs = 8, kHidden = 30;
constexpr int kSteps = 3;

/// Where parameters are bf16, and where they are f32 and rounded for every use ("master weights").
enum class Storage : std::uint8_t { bf16, mixed };

Value rounded_dense(Value x, const std::string& name, std::int64_t features) {
  Builder& g = x;
  const std::int64_t inputs = x.shape().back();
  const Value kernel =
      g.parameter(name + ".kernel", {f32, {inputs, features}}, nn::he_normal(inputs, features));
  const Value bias = g.parameter(name + ".bias", {f32, {features}}, Initializer::zeros());
  return matmul(x, cast(kernel, x.dtype())) + cast(bias, x.dtype());
}

TrainingStep make_step(Storage precision, const Optimizer& optimizer, DType dtype = bf16) {
  const nn::Sequential mlp{nn::Dense(kHidden), nn::ReLU(), nn::Dense(kHidden), nn::Tanh(),
                           nn::Dense(kInputs)};
  const auto loss = [=](const Batch& b) -> Value {
    if (precision == Storage::bf16) return nn::mean_squared_error(mlp(b["x"]), b["y"]);
    const Value h = relu(rounded_dense(b["x"], "a", kHidden));
    const Value y = rounded_dense(tanh(rounded_dense(h, "b", kHidden)), "c", kInputs);
    return nn::mean_squared_error(cast(y, f32), cast(b["y"], f32));
  };
  return training_step({{"x", {dtype, {kBatch, kInputs}}}, {"y", {dtype, {kBatch, kInputs}}}}, loss,
                       optimizer);
}

struct Run {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> state;
};

Run train(const TrainingStep& step, const Method& method, int devices, DType dtype = bf16) {
  const Executable executable = parallelize(step, method, Cluster::local(devices));
  const Dataset data = linear_dataset(kBatch, kInputs, 7);
  const std::map<std::string, Array> batch{{"x", data.x.cast(dtype)}, {"y", data.y.cast(dtype)}};
  TrainState state = executable.init(1);
  Run run;
  for (int i = 0; i < kSteps; ++i) run.losses.push_back(executable.run(state, batch).loss());
  CHECK(executable.measured_bytes(state) == executable.memory_bytes());
  for (const std::string& name : state.names())
    run.state[name] = state[name].to_host().to_doubles();
  return run;
}

struct Spread {
  std::string name;
  Method method;
};

std::vector<Spread> spreads_over_four_devices() {
  std::vector<Spread> spreads;
  for (const char* name : {"data", "zero2", "zero3", "shard"})
    for (const std::vector<int>& mesh : {std::vector<int>{4}, {2, 2}})
      for (const int micro_batches : {1, 2}) {
        Method method = parse_method(name);
        const auto set = [&](auto& options) {
          options.mesh_shape = mesh;
          options.num_micro_batches = micro_batches;
          options.solver_seconds = 2;
        };
        std::visit(set, method);
        spreads.push_back(
            {fmt::format("{}, {} mesh axes, {} micro-batches", name, mesh.size(), micro_batches),
             method});
      }
  return spreads;
}

/// Every rounding to bf16 moves a number by at most this share of it.
constexpr double kRoundoff = 1.0 / 256;

/// Is every element within four roundings of the largest one, plus `extra`?
bool is_close(const std::vector<double>& actual, const std::vector<double>& expected,
              double extra = 0) {
  return testing::largest_distance(actual, expected) <=
         4 * kRoundoff * testing::largest_magnitude(expected) + extra;
}

/// Every method against one device, and that against f64. Where a gradient is smaller than its
/// rounding, a step of Adam goes either way, and two runs end two of its lengths apart:
/// `either_way` is what parameters may be off beside.
void check_methods(Storage precision, const Optimizer& optimizer, double either_way) {
  const TrainingStep step = make_step(precision, optimizer);
  const Run serial = train(step, Serial{}, 1);
  CHECK(is_close(serial.losses,
                 train(make_step(precision, optimizer, f64), Serial{}, 1, f64).losses));
  for (const Spread& spread : spreads_over_four_devices()) {
    INFO(spread.name);
    const Run run = train(step, spread.method, 4);
    CHECK(is_close(run.losses, serial.losses));
    for (int i = 1; i < kSteps; ++i) CHECK(run.losses[i] < 0.95 * run.losses[i - 1]);
    REQUIRE(run.state.size() == serial.state.size());
    for (const auto& entry : serial.state) {
      const std::string& name = entry.first;
      INFO(name);
      const bool parameter = name.ends_with("kernel") || name.ends_with("bias");
      CHECK(is_close(run.state.at(name), entry.second, parameter ? either_way : 0));
    }
  }
}

}  // namespace

TEST_CASE("bf16 parameters, gradients and momenta") {
  check_methods(Storage::bf16, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9}, 0);
}

TEST_CASE("bf16 parameters and moments of Adam") {
  check_methods(Storage::bf16, optim::Adam{.learning_rate = 0.01}, 0.02);
}

TEST_CASE("f32 parameters and momenta behind a forward and backward pass in bf16") {
  check_methods(Storage::mixed, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9}, 0);
}

TEST_CASE("f32 parameters and moments of Adam behind a forward and backward pass in bf16") {
  check_methods(Storage::mixed, optim::Adam{.learning_rate = 0.01}, 0.02);
}

}  // namespace bf16_test
