// Mixture of experts against plain loops over tokens, in f64.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "src/ir/recorder.h"
#include "support/difference.h"
#include "support/error_text.h"
#include "support/evaluate.h"

namespace moe_test {

using namespace alpa;

namespace {

using testing::error_of;
using testing::HostTensor;

/// Numbers in (0, 1) that look random.
HostTensor numbers(const Shape& shape, int seed) {
  HostTensor x({f64, shape});
  for (std::int64_t i = 0; i < x.type.elements(); ++i) {
    const double phase = std::sin(double(i + 1) * 12.9898 + seed * 78.233) * 43758.5453;
    x.put(i, phase - std::floor(phase));
  }
  return x;
}

struct Choice {
  std::int64_t expert, place;
  double weight;
};

/// The choices of S tokens with `gates` [S][E], in the words of the papers.
std::vector<std::vector<Choice>> routed(const std::vector<std::vector<double>>& gates, int choices,
                                        std::int64_t capacity) {
  std::vector<std::vector<Choice>> taken(gates.size());
  std::vector<std::int64_t> load(gates[0].size(), 0);
  for (int k = 0; k < choices; ++k)
    for (std::size_t s = 0; s < gates.size(); ++s) {
      std::vector<std::int64_t> order(gates[s].size());
      for (std::size_t e = 0; e < order.size(); ++e) order[e] = std::int64_t(e);
      std::stable_sort(order.begin(), order.end(),
                       [&](auto a, auto b) { return gates[s][a] > gates[s][b]; });
      const double total = choices == 2 ? gates[s][order[0]] + gates[s][order[1]] : 1.0;
      const std::int64_t place = load[order[k]]++;
      if (place < capacity) taken[s].push_back({order[k], place, gates[s][order[k]] / total});
    }
  return taken;
}

double at(const HostTensor& x, std::int64_t i) { return x.get(i); }

std::vector<std::vector<double>> rows_of(const HostTensor& gates, std::int64_t group) {
  const std::int64_t S = gates.type.shape[1], E = gates.type.shape[2];
  std::vector<std::vector<double>> rows(S, std::vector<double>(E));
  for (std::int64_t s = 0; s < S; ++s)
    for (std::int64_t e = 0; e < E; ++e) rows[s][e] = at(gates, (group * S + s) * E + e);
  return rows;
}

}  // namespace

TEST_CASE(
    "tokens take places in their order, first choices before second ones, until none is left") {
  const std::int64_t G = 3, S = 7, E = 4;
  const HostTensor gates = numbers({G, S, E}, 1);
  for (int choices : {1, 2})
    for (std::int64_t C : {1, 2, 3, 7}) {
      Recorder b;
      const nn::Routing routing =
          nn::route(b.input(InputKind::batch, "gates", gates.type), choices, C);
      testing::output(b, "places", routing.places);
      testing::output(b, "weights", routing.weights);
      const testing::StepResult result = testing::evaluate(b.finish(), {{"gates", gates}});
      const std::vector<double> places = result.update("places"),
                                weights = result.update("weights");
      REQUIRE(std::int64_t(places.size()) == G * S * choices);
      for (std::int64_t g = 0; g < G; ++g) {
        const auto taken = routed(rows_of(gates, g), choices, C);
        for (std::int64_t s = 0; s < S; ++s) {
          std::size_t next = 0;
          for (int k = 0; k < choices; ++k) {
            const std::int64_t i = (g * S + s) * choices + k;
            if (places[i] < 0) continue;
            REQUIRE(next < taken[s].size());
            const Choice& c = taken[s][next++];
            CHECK(places[i] == double(c.expert * C + c.place));
            CHECK(weights[i] == doctest::Approx(c.weight).epsilon(1e-12));
          }
          CHECK(next == taken[s].size());
        }
      }
    }
}

TEST_CASE("the balance loss is 1 if every expert is chosen equally often, E if all choose one") {
  const auto loss_of = [](const std::vector<double>& gates) {
    Recorder b;
    const TensorType type{f64, {1, 2, 2}};
    testing::output(b, "loss",
                    nn::route(b.input(InputKind::batch, "gates", type), 1, 2).balance_loss);
    return testing::evaluate(b.finish(), {{"gates", testing::tensor(type, gates)}})
        .update("loss")[0];
  };
  CHECK(loss_of({0.75, 0.25, 0.25, 0.75}) == doctest::Approx(1));
  CHECK(loss_of({1, 0, 1, 0}) == doctest::Approx(2));
  CHECK(loss_of({0.75, 0.25, 0.625, 0.375}) == doctest::Approx(2 * (0.75 + 0.625) / 2));
}

TEST_CASE("the layer is the weighted sum of the chosen experts' results") {
  const std::int64_t M = 5, H = 3, E = 4, T = 12, S = 6, C = 3;
  const HostTensor x = numbers({2, T / 2, M}, 1), gate = numbers({M, E}, 2),
                   up = numbers({E, M, H}, 3), down = numbers({E, H, M}, 4);
  Recorder b;
  const nn::MoE layer(E, H, {.group = S});
  CHECK(layer.capacity(S) == C);
  testing::output(b, "y", layer(b.input(InputKind::batch, "x", x.type)).y);
  const std::vector<double> y =
      testing::evaluate(b.finish(),
                        {{"x", x}, {"moe0.gate", gate}, {"moe0.up", up}, {"moe0.down", down}})
          .update("y");
  for (std::int64_t g = 0; g < T / S; ++g) {
    std::vector<std::vector<double>> gates(S, std::vector<double>(E));
    for (std::int64_t s = 0; s < S; ++s) {
      double total = 0;
      for (std::int64_t e = 0; e < E; ++e) {
        double logit = 0;
        for (std::int64_t m = 0; m < M; ++m)
          logit += at(x, (g * S + s) * M + m) * at(gate, m * E + e);
        total += gates[s][e] = std::exp(logit);
      }
      for (double& p : gates[s]) p /= total;
    }
    const auto taken = routed(gates, 2, C);
    for (std::int64_t s = 0; s < S; ++s)
      for (std::int64_t m = 0; m < M; ++m) {
        double expected = 0;
        for (const Choice& c : taken[s])
          for (std::int64_t h = 0; h < H; ++h) {
            double inner = 0;
            for (std::int64_t k = 0; k < M; ++k)
              inner += at(x, (g * S + s) * M + k) * at(up, (c.expert * M + k) * H + h);
            expected += c.weight * std::max(inner, 0.0) * at(down, (c.expert * H + h) * M + m);
          }
        CHECK(y[(g * S + s) * M + m] == doctest::Approx(expected).epsilon(1e-12));
      }
  }
}

TEST_CASE("by index the layer and its gradients are those of products with masks") {
  const std::int64_t M = 5, H = 3, E = 4, S = 6;
  const HostTensor x = numbers({3, S, M}, 1);
  const testing::Tensors inputs{{"x", x},
                                {"moe0.gate", numbers({M, E}, 2)},
                                {"moe0.up", numbers({E, M, H}, 3)},
                                {"moe0.down", numbers({E, H, M}, 4)}};
  const auto results_of = [&](nn::MoEOptions options) {
    Recorder b;
    const Value input = b.input(InputKind::batch, "x", x.type);
    const nn::MoEOutput out = nn::MoE(E, H, options)(input);
    Values wrt = b.parameters();
    wrt.push_back(input);
    const Values gradients = gradient(sum(square(out.y)) + out.balance_loss, wrt);
    testing::output(b, "y", out.y);
    for (std::size_t i = 0; i < wrt.size(); ++i)
      testing::output(b, fmt::format("gradient{}", i), gradients[i]);
    return testing::evaluate(b.finish(), inputs);
  };
  for (int choices : {1, 2})
    for (double factor : {0.4, 1.0, 2.5}) {  // some tokens have no place, nearly none, none
      CAPTURE(choices);
      CAPTURE(factor);
      nn::MoEOptions options{.choices = choices, .capacity_factor = factor, .group = S};
      const testing::StepResult sparse = results_of(options);
      options.dense_dispatch = true;
      const testing::StepResult dense = results_of(options);
      REQUIRE(sparse.updates.size() == 5);
      for (const auto& [name, got] : sparse.updates)
        CHECK_MESSAGE(testing::difference(got, dense.update(name)) < 1e-12, name);
    }
}

TEST_CASE("mistakes with experts are told") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f32, {2, 6, 4}});
  CHECK(error_of([] { nn::MoE(0, 4); }) ==
        "nn::MoE: 0 experts of width 4; give at least 1 of each");
  CHECK(error_of([] { nn::MoE(4, 8, {.choices = 5}); }) == "nn::MoE: 5 choices among 4 experts");
  CHECK(error_of([] { nn::MoE(1, 8); }) == "nn::MoE: 2 choices among 1 experts");
  CHECK(error_of([] { nn::MoE(4, 8, {.capacity_factor = 0}); }) ==
        "nn::MoE: capacity factor 0 and groups of 2048; both must be positive");
  CHECK(error_of([&] { nn::MoE(4, 8, {.group = 5})(x); }) ==
        "nn::MoE: f32[2, 6, 4] has 12 tokens, not a multiple of groups of 5; choose another group "
        "size");
  CHECK(error_of([&] { nn::route(x, 2, 0); }) == "nn::route: capacity 0; give at least 1");
  CHECK(error_of([&] { nn::route(sum(x), 2, 1); }) == "nn::route: needs gates [G, S, E]");
  CHECK(error_of([&] { nn::route(cast(x, bf16), 2, 1); }) ==
        "nn::route: gates bf16[2, 6, 4]; cast them to f32");
}

}  // namespace moe_test
