// A toy GPT (tied embedding, causal mask, layer norm, Adam; as compositions and as operators) as a
// user writes one and with a user's defaults: against an independent computation in f64, and spread
// over 1 to 8 devices against one.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "equivalence/gpt_reference.h"
#include "equivalence/mlp_case.h"

namespace gpt_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr double kRate = 1e-3;

/// Uneven on most meshes: 8 sequences of 6 tokens, 12 channels in 3 heads, 11 words.
GptStack toy(int layers, bool operators = false) {
  return {.layers = layers,
          .batch = 8,
          .sequence = 6,
          .hidden = 12,
          .heads = 3,
          .vocabulary = 11,
          .causal = true,
          .operators = operators};
}

/// Whose derivatives by differences take a second.
GptStack two_sequences(bool operators = false) {
  GptStack s = toy(2, operators);
  s.batch = 2;
  return s;
}

std::vector<int> tokens(const GptStack& s, int step, int shift) {
  std::vector<int> all;
  for (int i = 0; i < s.batch * s.sequence; ++i)
    all.push_back(static_cast<int>((i * i + 5 * (i + shift) + 3 * step) % s.vocabulary));
  return all;
}

std::map<std::string, Array> batch_of(const GptStack& s, int step) {
  return {{"x", Array(tokens(s, step, 0), {s.batch, s.sequence})},
          {"y", Array(tokens(s, step, 1), {s.batch, s.sequence})}};
}

Contents contents_of(const TrainState& state) {
  Contents contents;
  for (const std::string& name : state.names()) contents[name] = state[name].to_host().to_doubles();
  return contents;
}

/// Largest |difference| as a share of the largest element of `expected`;
/// infinity if one is not finite.
double share(const std::vector<double>& actual, const std::vector<double>& expected) {
  return deviation({{"", actual}}, {{"", expected}});
}

struct Outcome {
  std::vector<double> losses;
  Contents contents;
};

Outcome train(const Executable& executable, const GptStack& s) {
  TrainState state = executable.init(3);
  Outcome outcome;
  for (int step = 0; step < 3; ++step)
    outcome.losses.push_back(executable.run(state, batch_of(s, step)).loss());
  outcome.contents = contents_of(state);
  CHECK(executable.measured_bytes(state) == executable.memory_bytes());
  return outcome;
}

/// Adam divides a gradient by its size, rounding included; so what is compared of a step is its
/// gradients, which is what the first moment holds, and the losses, which the parameters decide.
void check_same(const Outcome& actual, const Outcome& expected) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    CHECK(actual.losses[i] == doctest::Approx(expected.losses[i]).epsilon(2e-6));
  for (const auto& [name, values] : expected.contents) {
    if (!name.ends_with(".adam_m")) continue;
    INFO(name);
    CHECK(share(actual.contents.at(name), values) <= 2e-4);
  }
}

void check_method(const char* name, int devices, int micro_batches, const GptStack& s,
                  const Outcome& serial) {
  Method method = parse_method(name);
  std::visit(
      [&](auto& options) {
        options.solver_seconds = 1;  // any plan must be right, the best or not
        options.num_micro_batches = micro_batches;
      },
      method);
  INFO(name << " on " << devices << " devices, " << micro_batches << " micro-batches");
  check_same(train(parallelize(gpt_step(s, optim::Adam{.learning_rate = kRate}), method,
                               Cluster::local(devices)),
                   s),
             serial);
}

void check_first_step(const GptStack& s) {
  const TrainingStep step = gpt_step(s, optim::Adam{.learning_rate = kRate});
  const Executable serial = parallelize(step, Serial{}, Cluster::local(1));
  TrainState state = serial.init(3);
  const Contents before = contents_of(state);
  const double loss = serial.run(state, batch_of(s, 0)).loss();
  const Contents after = contents_of(state);

  Tensors parameters;
  for (const std::string& name : parameter_names(serial.graph()))
    parameters[name] = before.at(name);
  const std::vector<int> x = tokens(s, 0, 0), y = tokens(s, 0, 1);
  CHECK(loss == doctest::Approx(gpt_reference_loss(s, parameters, x, y)).epsilon(1e-6));
  for (const auto& [name, gradient] : gpt_reference_gradients(s, parameters, x, y)) {
    INFO(name);
    std::vector<double> first, second, moved, wanted;
    double largest = 0;
    for (double g : gradient) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      first.push_back(0.1 * gradient[i]);
      second.push_back(0.001 * gradient[i] * gradient[i]);
      if (std::abs(gradient[i]) < 1e-2 * largest) continue;  // rounding decides their sign
      moved.push_back(after.at(name)[i] - before.at(name)[i]);
      wanted.push_back(-kRate * gradient[i] / (std::abs(gradient[i]) + 1e-8));
    }
    CHECK(share(after.at(name + ".adam_m"), first) <= 5e-5);
    CHECK(share(after.at(name + ".adam_v"), second) <= 1e-4);
    // a step of 1e-3 from a parameter of 1 has 13 bits left in f32
    CHECK(share(moved, wanted) <= 1e-3);
  }
}

}  // namespace

TEST_CASE(
    "a toy GPT's loss, gradients and first Adam step are those of an independent f64 computation") {
  check_first_step(two_sequences());
}

TEST_CASE("so they are with layer norms and embedding as operators") {
  check_first_step(two_sequences(true));
}

TEST_CASE("a toy GPT of these operators on 3 and 4 devices is the one on one device") {
  const GptStack s = toy(1, true);
  const Outcome serial = train(
      parallelize(gpt_step(s, optim::Adam{.learning_rate = kRate}), Serial{}, Cluster::local(1)),
      s);
  for (int devices : {3, 4})
    for (const char* method : {"data", "zero3", "shard"})
      check_method(method, devices, 1, s, serial);
  check_method("shard", 4, 2, s, serial);
}

TEST_CASE("a toy GPT on 1 to 8 devices is the one on one device, default threads, every method") {
  const GptStack s = toy(1);
  const Outcome serial = train(
      parallelize(gpt_step(s, optim::Adam{.learning_rate = kRate}), Serial{}, Cluster::local(1)),
      s);
  for (int devices = 1; devices <= 8; ++devices)
    for (const char* method : {"data", "zero2", "zero3", "shard"})
      check_method(method, devices, 1, s, serial);
  for (const char* method : {"zero2", "shard"}) check_method(method, 4, 2, s, serial);
}

}  // namespace gpt_test
