// Parameters with optimizers of their own, chosen by name.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/error_text.h"

namespace optimizer_groups_test {

using namespace alpa;
using alpa::testing::error_of;
using Names = std::vector<std::string>;

namespace {

/// loss = mean of x·kernel + bias, so that every gradient is 1 where x is 1.
TrainingStep linear_step(std::vector<OptimizerGroup> groups, StepOptions options = {}) {
  options.groups = std::move(groups);
  return training_step(
      {{"x", {f64, {4, 2}}}},
      [dense = nn::Dense(1, {.kernel = ones})](const Batch& b) { return mean(dense(b["x"])); },
      optim::Sgd{.learning_rate = 0.5}, options);
}

/// Kernel and bias, 1 and 0 at first, after steps with x = 1.
std::vector<double> trained(const TrainingStep& step, int steps, const Method& method = Serial{}) {
  const int devices = std::holds_alternative<Serial>(method) ? 1 : 2;
  const Executable train = parallelize(step, method, Cluster::local(devices));
  TrainState state = train.init(0);
  for (int i = 0; i < steps; ++i)
    train.run(state, {{"x", Array(std::vector<double>(8, 1), {4, 2})}});
  return {state["dense0.kernel"].to_host().to_doubles()[0],
          state["dense0.bias"].to_host().to_doubles()[0]};
}

}  // namespace

TEST_CASE("a group has its own optimizer and its own learning rate, which may be a schedule") {
  const Schedule falling = [](std::int64_t step) { return step == 1 ? 2.0 : 0.25; };
  const TrainingStep step = linear_step({{"*.bias", optim::Sgd{.learning_rate = falling}}});
  CHECK(trained(step, 1) == std::vector<double>{1 - 0.5, -2});
  CHECK(trained(step, 2) == std::vector<double>{1 - 2 * 0.5, -2.25});
  CHECK(trained(step, 2, Zero2Parallel{.num_micro_batches = 2}) ==
        std::vector<double>{1 - 2 * 0.5, -2.25});
}

TEST_CASE("decay leaves out what a group says") {
  const auto step = [](std::vector<OptimizerGroup> groups) {
    return linear_step({{"*.kernel", optim::Sgd{.learning_rate = 0.5, .weight_decay = 0.5}},
                        std::move(groups)[0]});
  };
  // Kernel: 1 - 0.5 · (1 + 0.5 · 1).
  CHECK(trained(step({{"*", optim::Sgd{.learning_rate = 1.0}}}), 1) ==
        std::vector<double>{0.25, -1});
}

TEST_CASE("the first group that fits counts, and state is that of its optimizer") {
  const TrainingStep step =
      linear_step({{"dense0.bias", optim::Adam{}}, {"*", optim::Sgd{.momentum = 0.5}}});
  CHECK(parallelize(step, Serial{}, Cluster::local(1)).init(0).names() ==
        Names{"dense0.kernel", "dense0.bias", "dense0.kernel.velocity", "dense0.bias.adam_m",
              "dense0.bias.adam_v"});
}

TEST_CASE("mistakes with groups are named") {
  const auto error = [](std::vector<OptimizerGroup> groups) {
    return error_of([&] { linear_step(std::move(groups)).trace(1); });
  };
  CHECK(error({{"bias", optim::Adam{}}}) ==
        "StepOptions::groups: \"bias\" matches no trained parameter; these are \"dense0.kernel\", "
        "\"dense0.bias\"");
  CHECK(error({{"*", optim::Adam{}}, {"*", optim::Sgd{}}}) ==
        "StepOptions::groups: \"*\" is listed twice; remove one, since the first matching group "
        "applies");
}

}  // namespace optimizer_groups_test
