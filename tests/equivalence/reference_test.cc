// Alpa's MLP tests (tests/shard_parallel/test_mlp.py) at their own sizes: each plan, at
// most as dear as Alpa's (tests/search/reference_test.cc), is run; the runtime then
// measures what the plan claims.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "equivalence/reference_plan.h"
#include "search/graphs.h"

namespace reference_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr int kLayers = 6;

TrainingStep step_of(std::int64_t batch, std::int64_t width) {
  const TensorType data{f32, {batch, width}};
  const auto trace = [=](const TraceOptions&) {
    return mlp_graph({.layers = kLayers, .batch = batch, .width = width, .report_loss = false});
  };
  const auto scalars = [](std::int64_t step) {
    return std::map<std::string, double>{{"learning_rate", 1e-2},
                                         {"step", static_cast<double>(step)}};
  };
  return {{{"x", data}, {"y", data}}, trace, scalars};
}

/// Parameters after one step from the same small numbers on every plan.
std::map<std::string, std::vector<double>> parameters_after_step(const Executable& train,
                                                                 std::int64_t batch,
                                                                 std::int64_t width) {
  TrainState state = train.init(0);
  for (int layer = 0; layer < kLayers; ++layer) {
    const Dataset numbers = linear_dataset(width, width, 7 + static_cast<std::uint64_t>(layer));
    std::vector<float> kernel;
    for (double value : numbers.x.to_doubles())
      kernel.push_back(static_cast<float>(value / std::sqrt(static_cast<double>(width))));
    state[fmt::format("dense{}.kernel", layer)] = Array(kernel, {width, width});
  }
  const Dataset data = linear_dataset(batch, width, 3);
  train.run(state, {{"x", data.x}, {"y", data.y}});
  CHECK(train.measured_bytes(state) == train.memory_bytes());
  std::map<std::string, std::vector<double>> values;
  for (const std::string& name : parameter_names(train.graph()))
    values[name] = state[name].to_host().to_doubles();
  return values;
}

void check_run(std::int64_t batch, std::int64_t width, const DeviceMesh& mesh,
               const intra_op::AutoShardOptions& options, double alpas_objective,
               const Expected& expected) {
  const TrainingStep step = step_of(batch, width);
  const Executable train = planned_like_alpa(step, mesh, options, alpas_objective);
  const auto parameters = parameters_after_step(train, batch, width);
  const auto serial =
      parameters_after_step(parallelize(step, Serial{}, Cluster::local(1)), batch, width);
  // Adam's first step moves every parameter by ±the learning rate, so a wrong gradient shows.
  for (const auto& [name, values] : serial) {
    CAPTURE(name);
    for (std::size_t i = 0; i < values.size(); ++i)
      REQUIRE(std::abs(parameters.at(name)[i] - values[i]) < 1e-4);
  }
  check_traffic(train, expected);
}

/// Bytes of all parameters of width 32, and what reducing them over 4 devices sends.
constexpr double kParameters = 6 * (32 * 32 + 32) * 4, kReduced = kParameters * 2 * 3 / 4;

}  // namespace

TEST_CASE("Alpa's MLP, data parallelism by itself: one all_reduce of all gradients") {
  for (const auto& shape : {std::vector<int>{4, 1}, {1, 4}})
    check_run(256, 32, priced_mesh(shape), {}, 38139.12, {"all_reduce 1", kReduced});
}

TEST_CASE("Alpa's MLP, model parallelism by itself: five activations are reduced") {
  for (const auto& shape : {std::vector<int>{4, 1}, {1, 4}})
    check_run(32, 256, priced_mesh(shape), {}, 245765.05, {"all_reduce 5", 5 * 32768 * 2 * 3 / 4});
}

TEST_CASE("Alpa's MLP on 2x2: reduced over the fast axis, the slow one, and gathered") {
  check_run(256, 32, priced_mesh({2, 2}, {1, 1}, {1, 0.1}), {}, 21265.17,
            {"all_gather 1, all_reduce 1, reduce_scatter 1", kReduced});
}

TEST_CASE("Alpa's MLP, data parallelism forced: one all_reduce although it is dear") {
  check_run(32, 256, priced_mesh({4}), intra_op::data_parallel_options(), 2368635.12,
            {"all_reduce 1", 6 * (256 * 256 + 256) * 4 * 2 * 3 / 4.0});
}

TEST_CASE("Alpa's MLP, ZeRO: as many bytes as data parallelism, by reduce_scatter and all_gather") {
  check_run(256, 32, priced_mesh({4}), intra_op::zero2_options(), 38139.12,
            {"all_gather 1, reduce_scatter 1", kReduced});
  check_run(256, 32, priced_mesh({4}), intra_op::zero3_options(), 38139.12,
            {"all_gather 1, reduce_scatter 1", kReduced});
}

}  // namespace reference_test
