// The models by which the planner is measured compute on four devices what they compute on one.
#include "support/planning_suite.h"

#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "equivalence/mlp_case.h"

namespace planning_suite_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Irregular numbers; of words and segments those that exist, every third word masked.
Array batch_input(const BatchInput& input) {
  const std::int64_t size = input.type.elements();
  if (input.type.dtype == i32) {
    std::vector<int> ids;
    for (std::int64_t i = 0; i < size; ++i)
      ids.push_back(static_cast<int>((i * i + 5 * i) % (input.name == "segment" ? 2 : 23)));
    return {ids, input.type.shape};
  }
  std::vector<float> values;
  for (std::int64_t i = 0; i < size; ++i)
    values.push_back(input.name == "masked" ? static_cast<float>(i % 3 == 0)
                                            : static_cast<float>((i * i * 7 + i) % 31) / 31 - 0.5F);
  return {values, input.type.shape};
}

struct Outcome {
  double loss = 0;
  Contents gradients;  ///< as Adam's first moment holds them
};

Outcome first_step(const TrainingStep& step, const Method& method, int devices) {
  const Executable executable = parallelize(step, method, Cluster::local(devices));
  TrainState state = executable.init(3);
  std::map<std::string, Array> batch;
  for (const BatchInput& input : step.inputs) batch.emplace(input.name, batch_input(input));
  Outcome outcome{.loss = executable.run(state, batch).loss(), .gradients = {}};
  // Softmax does not depend on the keys' shift: its gradient is rounding alone.
  for (const std::string& name : state.names())
    if (name.ends_with(".adam_m") && !name.ends_with(".key.bias.adam_m"))
      outcome.gradients[name] = state[name].to_host().to_doubles();
  return outcome;
}

}  // namespace

TEST_CASE("BERT, experts and residual MLPs on 2x2 devices are those on one device") {
  for (const std::string model : {"bert", "moe", "residual-mlp", "attention"}) {
    CAPTURE(model);
    const TrainingStep step = suite_step(model, tiny_shape(1));
    const Outcome serial = first_step(step, Serial{}, 1);
    const Outcome spread = first_step(
        step, ShardParallel{.num_micro_batches = 2, .mesh_shape = {2, 2}, .solver_seconds = 0.5},
        4);
    CHECK(serial.loss > 0.01);
    CHECK(spread.loss == doctest::Approx(serial.loss).epsilon(1e-5));
    CHECK(deviation(spread.gradients, serial.gradients) <= 1e-4);
  }
}

}  // namespace planning_suite_test
