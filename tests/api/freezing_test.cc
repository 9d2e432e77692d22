// Frozen parameters have no gradient, no optimizer state and no communication.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "support/error_text.h"

namespace freezing_test {

using namespace alpa;
using alpa::testing::error_of;
using Names = std::vector<std::string>;

namespace {

constexpr std::int64_t kBatch = 16, kDim = 8, kWide = 24;

/// mean((model(x) - y)²) with AdamW, whose decay moves every parameter that it updates.
TrainingStep step_of(const nn::Layer& model, StepOptions options = {}) {
  return training_step(
      {{"x", {f32, {kBatch, kDim}}}, {"y", {f32, {kBatch, kDim}}}},
      [model](const Batch& b) { return nn::mean_squared_error(model(b["x"]), b["y"]); },
      optim::AdamW{.learning_rate = 0.01}, std::move(options));
}

std::map<std::string, Array> batch() {
  const Dataset data = linear_dataset(kBatch, kDim, 1);
  return {{"x", data.x}, {"y", data.y}};
}

/// Two layers; the first is the one to freeze.
const nn::Dense first(kWide, {.name = "first"}), second(kDim, {.name = "second"});
const nn::Sequential trained{first, nn::Tanh(), second};
const TrainingStep frozen_layer = step_of(trained, {.frozen = {"first.*"}});

/// Nodes that run behind the loss, by a part of their names.
int backward_nodes(const Graph& graph, const std::string& part) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
        return node.region == Region::backward && node.name.find(part) != std::string::npos;
      }));
}

Names state_names(const TrainingStep& step) {
  return parallelize(step, Serial{}, Cluster::local(1)).init(0).names();
}

double all_reduced_bytes(const TrainingStep& step) {
  return parallelize(step, DataParallel{.num_micro_batches = 2}, Cluster::local(2))
      .traffic()["all_reduce"]
      .bytes;
}

}  // namespace

TEST_CASE("a frozen layer has no gradient, no accumulator and no optimizer state") {
  CHECK(backward_nodes(step_of(trained).trace(2), "first") > 0);
  const Graph graph = frozen_layer.trace(2);
  CHECK(backward_nodes(graph, "first") == 0);
  CHECK(backward_nodes(graph, "second") > 0);
  Names state, sums;
  for (const Input& input : graph.inputs)
    if (input.kind != InputKind::batch && input.kind != InputKind::scalar)
      (input.kind == InputKind::accumulator ? sums : state).push_back(input.name);
  CHECK(state == Names{"first.kernel", "first.bias", "second.kernel", "second.bias",
                       "second.kernel.adam_m", "second.kernel.adam_v", "second.bias.adam_m",
                       "second.bias.adam_v"});
  CHECK(sums == Names{"loss.sum", "second.kernel.gradient", "second.bias.gradient"});
}

TEST_CASE("a frozen layer stays as it is under every method, the others train alike") {
  const Executable serial = parallelize(frozen_layer, Serial{}, Cluster::local(1));
  TrainState reference = serial.init(3);
  const std::vector<double> before = reference["first.kernel"].to_host().to_doubles();
  const std::vector<double> loss{serial.run(reference, batch()).loss(),
                                 serial.run(reference, batch()).loss()};
  CHECK(loss[1] < loss[0]);
  for (const char* method : {"data", "zero2", "zero3", "shard"}) {
    CAPTURE(method);
    const Executable train = parallelize(frozen_layer, parse_method(method), Cluster::local(2));
    TrainState state = train.init(3);
    CHECK(train.run(state, batch()).loss() == doctest::Approx(loss[0]).epsilon(1e-6));
    CHECK(train.run(state, batch()).loss() == doctest::Approx(loss[1]).epsilon(1e-6));
    CHECK(state["first.kernel"].to_host().to_doubles() == before);
  }
}

TEST_CASE("data parallelism sends the gradients of trained parameters and the loss, nothing else") {
  // A ring of two sends each byte once. Parameters of first: 8·24 + 24, of
  // second: 24·8 + 8; the loss: 1.
  CHECK(all_reduced_bytes(step_of(trained)) == 4 * (8 * 24 + 24 + 24 * 8 + 8 + 1));
  CHECK(all_reduced_bytes(frozen_layer) == 4 * (24 * 8 + 8 + 1));
}

TEST_CASE("a plan for a frozen layer takes the memory of its content alone") {
  const auto bytes = [](const TrainingStep& step) {
    return plan_only(step, Serial{}, Cluster::local(1)).memory_bytes;
  };
  // Without Adam's two states, and without the gradient of the kernel at least.
  CHECK(bytes(frozen_layer) <= bytes(step_of(trained)) - 4 * (2 * (8 * 24 + 24) + 8 * 24));
}

TEST_CASE("names with * freeze what they match, containers included") {
  const Graph graph = frozen_layer.trace(1);
  CHECK(step_of(trained, {.frozen = {"first.kernel", "first.bias"}}).trace(1) == graph);
  CHECK(step_of(trained, {.frozen = {"*rst.kernel", "*first.b*as*"}}).trace(1) == graph);
  const nn::Sequential encoder({first, nn::Tanh()}, {.name = "encoder"});
  const Graph nested = step_of(nn::Sequential{encoder, second}, {.frozen = {"encoder.*"}}).trace(1);
  CHECK(backward_nodes(nested, "encoder.first") == 0);
  CHECK(backward_nodes(nested, "second") > 0);
  CHECK_FALSE(step_of(trained, {.frozen = {"first.kernel"}}).trace(1) == graph);
}

TEST_CASE("every layer with parameters can be frozen") {
  const nn::Embedding table(5, kDim);
  const nn::LayerNorm norm;
  const TrainingStep step =
      training_step({{"ids", {i32, {kBatch}}}},
                    [=](const Batch& b) { return mean(square(second(norm(table(b["ids"]))))); },
                    optim::Adam{}, {.frozen = {"embedding0.*", "layer_norm0.*"}});
  CHECK(state_names(step) == Names{"embedding0.table", "layer_norm0.scale", "layer_norm0.bias",
                                   "second.kernel", "second.bias", "second.kernel.adam_m",
                                   "second.kernel.adam_v", "second.bias.adam_m",
                                   "second.bias.adam_v"});
}

TEST_CASE("what is behind stop_gradient has no optimizer state, and decay does not move it") {
  const nn::Layer model = [](Value x) { return second(stop_gradient(first(x))); };
  const TrainingStep step = step_of(model);
  CHECK(state_names(step) == state_names(frozen_layer));
  const Executable train = parallelize(step, Zero2Parallel{}, Cluster::local(2));
  TrainState state = train.init(0);
  const std::vector<double> before = state["first.kernel"].to_host().to_doubles();
  train.run(state, batch());
  CHECK(state["first.kernel"].to_host().to_doubles() == before);
}

TEST_CASE("mistakes with frozen parameters are named") {
  const auto error = [](const nn::Layer& model, StepOptions options = {}) {
    return error_of([&] { step_of(model, options).trace(1); });
  };
  CHECK(error(trained, {.frozen = {"first.*", "sceond.*"}}) ==
        "StepOptions::frozen: \"sceond.*\" matches no trained parameter; "
        "these are \"first.kernel\", \"first.bias\", \"second.kernel\", \"second.bias\"");
  CHECK(error(trained, {.frozen = {"*"}}) ==
        "StepOptions::frozen freezes every parameter of the model; for metrics alone use "
        "evaluation_step");
  const nn::BatchNorm used_first, read_first;
  CHECK(error(
            [&](Value x) {
              const Value later = used_first(x);
              return second(read_first(x) + later);
            },
            {.frozen = {"batch_norm0.*"}}) ==
        "parameter \"batch_norm0.scale\" is frozen, but its layer had another number when it was "
        "used; give the layer a name");
  CHECK(error([](Value x) { return stop_gradient(nn::Dense(kDim)(x)); }) ==
        "the loss depends on no parameter of the model; for metrics alone use evaluation_step");
}

}  // namespace freezing_test
