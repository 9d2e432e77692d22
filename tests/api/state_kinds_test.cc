// What a state is (a parameter, or the optimizer's state of one) is no matter of its name.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

namespace state_kinds_test {

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 32, kDim = 16;

/// loss = mean((x enc + enc.bias - y)²), the second parameter named as if it belonged to the first.
TrainingStep make_step(StepOptions options = {}) {
  return training_step(
      {{"x", {f32, {kBatch, kDim}}}, {"y", {f32, {kBatch, kDim}}}},
      [](const Batch& b) {
        Builder& g = b.builder();
        const Value enc = g.parameter("enc", {f32, {kDim, kDim}}, Initializer::normal(0, 0.1)),
                    bias = g.parameter("enc.bias", {f32, {kDim}}, Initializer::constant(0.5));
        return mean(square(matmul(b["x"], enc) + bias - b["y"]));
      },
      optim::Adam{.learning_rate = 1e-2}, std::move(options));
}

std::string sharding_of(const Executable& train, const std::string& name) {
  return to_string(train.sharding_of(name));
}

}  // namespace

TEST_CASE("a parameter named like another one's state is a parameter under every method") {
  const Executable data = parallelize(make_step(), DataParallel{}, Cluster::local(4));
  const Executable zero2 = parallelize(make_step(), Zero2Parallel{}, Cluster::local(4));
  const Executable zero3 = parallelize(make_step(), Zero3Parallel{}, Cluster::local(4));
  for (const Executable* train : {&data, &zero2, &zero3})
    CHECK(parameter_names(train->graph()) == std::vector<std::string>{"enc", "enc.bias"});
  for (const char* name : {"enc", "enc.bias", "enc.adam_m", "enc.bias.adam_m"}) {
    CAPTURE(name);
    const bool state = std::string_view(name).ends_with("adam_m");
    CHECK(sharding_of(data, name) == "R");
    CHECK((sharding_of(zero2, name) == "R") == !state);
    CHECK(sharding_of(zero3, name) != "R");
  }
}

TEST_CASE("a training step leaves a frozen parameter as it is and keeps no state for it") {
  const Executable train =
      parallelize(make_step({.frozen = {"enc.bias"}}), Zero2Parallel{}, Cluster::local(2));
  TrainState state = train.init(0);
  CHECK(state.names() == std::vector<std::string>{"enc", "enc.bias", "enc.adam_m", "enc.adam_v"});
  const Dataset data = linear_dataset(kBatch, kDim, 1);
  const auto content = [&](const char* name) {
    const Array array = state[name].to_host();
    const std::span<const float> elements = array.elements_as<float>();
    return std::vector<float>(elements.begin(), elements.end());
  };
  const std::vector<float> before = content("enc");
  train.run(state, {{"x", data.x}, {"y", data.y}});
  CHECK(content("enc.bias") == std::vector<float>(kDim, 0.5F));
  CHECK(content("enc") != before);
}

}  // namespace state_kinds_test
