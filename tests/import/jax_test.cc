// Functions of JAX, imported: numbers that jax computed (make.py), on one device and on several.
#include <doctest/doctest.h>

#include <set>
#include <utility>

#include <alpa/alpa.h>

#include "alpa/import/stablehlo.h"
#include "import/data.h"
#include "support/difference.h"
#include "support/nightly.h"

namespace import_jax_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr double kTolerance = 1e-5;

double largest(const Array& array) {
  double found = 1;
  for (double x : array.to_doubles()) found = std::max(found, std::abs(x));
  return found;
}

/// Runs one step of SGD of rate 1, whose change of a parameter is its gradient.
void check_loss(const JaxData& data, const Method& method, int devices) {
  CAPTURE(data.name);
  CAPTURE(devices);
  const Imported loss = import_stablehlo(data.text());
  const std::size_t count = data.count("grad.");
  const TrainingStep step =
      training_step(loss, optim::Sgd{.learning_rate = 1}, {.parameters = std::to_string(count)});
  const Executable train = parallelize(step, method, Cluster::local(devices));
  TrainState state = train.init(0);
  BatchData batch;
  for (std::size_t i = 0; i < loss.arguments.size(); ++i)
    if (i < count)
      state[loss.arguments[i].name] = data.at("in", i);
    else
      batch.emplace(loss.arguments[i].name, data.at("in", i));
  const double expected = data.at("out", 0).to_doubles()[0];
  CHECK(std::abs(train.run(state, batch).loss() - expected) <= kTolerance * std::abs(expected));
  for (std::size_t i = 0; i < count; ++i) {
    const Array before = data.at("in", i), gradient = data.at("grad", i),
                after = state[loss.arguments[i].name];
    std::vector<double> change = before.to_doubles(), now = after.to_doubles();
    for (std::size_t k = 0; k < change.size(); ++k) change[k] -= now[k];
    CAPTURE(loss.arguments[i].name);
    CHECK(largest_distance(change, gradient.to_doubles()) <= kTolerance * largest(gradient));
  }
}

void check_loss(const char* name) {
  const JaxData data(name);
  check_loss(data, Serial{}, 1);
  for (int devices : sampled<std::vector<int>>({4}, {4, 8}))
    check_loss(data, ShardParallel{}, devices);
}

/// In two stages of layers that the planner finds, each on two devices.
void check_stages(const char* name) {
  check_loss(JaxData(name), PipeshardParallel{.layers = AutoLayers{2}, .stages = UniformStages{2}},
             4);
}

/// Checks the state against the arrays "kind.i", but for those of these names.
void check_state(TrainState& state, const JaxData& data, const Imported& imported,
                 const std::string& kind, std::size_t count, const std::set<std::string>& without) {
  CAPTURE(kind);
  for (std::size_t i = 0; i < count; ++i) {
    if (without.contains(imported.arguments[i].name)) continue;
    const Array after = state[imported.arguments[i].name], found = data.at(kind, i);
    CAPTURE(imported.arguments[i].name);
    CHECK(largest_distance(after.to_doubles(), found.to_doubles()) <= kTolerance * largest(found));
  }
}

/// Runs ten whole steps as jax wrote them, on one batch. `noise`: state whose gradients are zero
/// but for rounding, of which AdamW makes steps of its full rate.
void check_step(const JaxData& data, int devices, const std::set<std::string>& noise) {
  CAPTURE(data.name);
  CAPTURE(devices);
  const Imported imported = import_stablehlo(data.text());
  const Executable train =
      parallelize(whole_step(imported), ShardParallel{}, Cluster::local(devices));
  TrainState state = train.init(0);
  BatchData batch;
  const std::size_t count = data.count("out.") - 1;  // behind the state, the loss
  for (std::size_t i = 0; i < imported.arguments.size(); ++i)
    if (i < count)
      state[imported.arguments[i].name] = data.at("in", i);
    else
      batch.emplace(imported.arguments[i].name, data.at("in", i));
  bool is_first = true;
  for (const double expected : data.at("losses", 0).to_doubles()) {
    const StepResult result = train.run(state, batch);
    CHECK(std::abs(result.metrics[imported.results[count].name] - expected) <=
          kTolerance * std::abs(expected));
    if (std::exchange(is_first, false)) check_state(state, data, imported, "out", count, {});
  }
  check_state(state, data, imported, "end", count, noise);
}

void check_step(const char* name, const std::set<std::string>& noise = {}) {
  const JaxData data(name);
  for (int devices : sampled<std::vector<int>>({1, 4}, {1, 4, 8})) check_step(data, devices, noise);
}

}  // namespace

TEST_CASE("an MLP with cross entropy has jax's loss and gradients") { check_loss("mlp"); }
TEST_CASE("a decoder of Llama's parts has jax's loss and gradients") { check_loss("llama"); }
TEST_CASE("a decoder of flax has jax's loss and gradients") { check_loss("flax_llama"); }
TEST_CASE("layers in lax.scan have jax's loss and gradients") { check_loss("llama_scan"); }
TEST_CASE("rounds of lax.scan are layers that two stages share") {
  check_loss(JaxData("llama_scan"), PipeshardParallel{.stages = UniformStages{2}}, 4);
}
TEST_CASE("BERT with a mask has jax's loss and gradients") { check_loss("bert"); }
TEST_CASE("threefry's dropout is computed as jax does") { check_loss("bert_dropout"); }
TEST_CASE("a vision transformer has jax's loss and gradients") { check_loss("vit"); }
TEST_CASE("a residual network has jax's loss and gradients") { check_loss("resnet"); }

TEST_CASE("two stages have jax's losses and gradients") {
  for (const char* name : {"mlp", "llama", "flax_llama", "bert", "bert_dropout", "vit", "resnet"})
    check_stages(name);
}

TEST_CASE("ten whole steps of SGD are jax's") { check_step("mlp_sgd"); }
TEST_CASE("ten whole steps of AdamW are jax's") { check_step("mlp_adamw"); }
TEST_CASE("ten whole steps of a decoder are jax's") { check_step("llama_adamw"); }
TEST_CASE("ten whole steps through scan and its gradient are jax's") {
  check_step("llama_scan_adamw");
}
// Without the biases of keys, which shift all scores of a query alike.
TEST_CASE("ten whole steps of BERT are jax's") { check_step("bert_adamw", {"arg79", "arg95"}); }
TEST_CASE("ten whole steps of a residual network are jax's") { check_step("resnet_adamw"); }

TEST_CASE("ten whole steps of flax's decoders, with scan and remat too, are jax's") {
  check_step("flax_llama_adamw");
  check_step("flax_llama_scan_adamw");
}
TEST_CASE("ten whole steps of flax's encoders are jax's, but for the biases of keys") {
  check_step("flax_bert_adamw", {"arg93", "arg101"});
  check_step("flax_vit_adamw", {"arg102", "arg110"});
}
TEST_CASE("ten whole steps of flax's residual network, with its statistics, are jax's") {
  check_step("flax_resnet_adamw");
}

}  // namespace import_jax_test
