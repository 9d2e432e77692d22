// A covering set of the full product (mlp_slow_test.cc): every mesh with every method, number of
// micro-batches and element type; number of layers, trait and optimizer take turns, so that every pair of
// values of any two factors occurs.
#include <doctest/doctest.h>

#include <set>

#include "equivalence/mlp_case.h"

using namespace alpa;
using namespace alpa::testing;

namespace {

const std::vector<std::vector<int>> kMeshes = {{1},    {2},    {3}, {4}, {2, 2}, {5},   {6},
                                               {2, 3}, {3, 2}, {7}, {8}, {2, 4}, {4, 2}};
constexpr const char* kMethods[] = {"data", "zero2", "zero3", "shard"};
constexpr int kLayers[] = {2, 3, 4, 6, 12};

/// One number per factor: mesh, method, micro-batches, dtype, layers, trait, optimizer.
using Choice = std::array<int, 7>;

std::vector<Choice> covering_choices() {
  std::vector<Choice> choices;
  int turn = 0;
  for (int mesh = 0; mesh < static_cast<int>(kMeshes.size()); ++mesh)
    for (int method = 0; method < 4; ++method)
      for (int half = 0; half < 2; ++half, ++turn)
        choices.push_back({mesh, method, half, (method + half) % 2, turn % 5,
                           (method + mesh + 2 * half) % 4, turn / 3 % 2});
  return choices;
}

MlpCase model_of(const Choice& c) {
  return {static_cast<Trait>(c[5]), kLayers[c[4]], c[6] == 1, c[3] == 1 ? f64 : f32};
}

Spread spread_of(const Choice& c) { return {kMethods[c[1]], kMeshes[c[0]], c[2] == 1 ? 4 : 1}; }

void check_mesh(int mesh) {
  static std::map<std::string, Contents> references;
  for (const Choice& choice : covering_choices()) {
    if (choice[0] != mesh) continue;
    const MlpCase model = model_of(choice);
    const std::string name = to_string(model);
    INFO(name << "; " << to_string(spread_of(choice)));
    if (!references.contains(name)) references[name] = run_serial(model);
    CHECK(deviation(run_spread(model, spread_of(choice)), references[name]) <= tolerance(model.dtype));
  }
}

}  // namespace

TEST_CASE("the covering set holds every pair of values of any two factors") {
  const Choice sizes = {static_cast<int>(kMeshes.size()), 4, 2, 2, 5, 4, 2};
  const std::vector<Choice> choices = covering_choices();
  for (int a = 0; a < 7; ++a)
    for (int b = a + 1; b < 7; ++b) {
      std::set<std::pair<int, int>> pairs;
      for (const Choice& choice : choices) pairs.insert({choice[a], choice[b]});
      CAPTURE(a);
      CAPTURE(b);
      CHECK(static_cast<int>(pairs.size()) == sizes[a] * sizes[b]);
    }
}

TEST_CASE("one to four devices compute what one device computes") {
  for (int mesh = 0; mesh < 5; ++mesh) check_mesh(mesh);
}

TEST_CASE("five to seven devices compute what one device computes") {
  for (int mesh = 5; mesh < 10; ++mesh) check_mesh(mesh);
}

TEST_CASE("eight devices compute what one device computes") {
  for (int mesh = 10; mesh < 13; ++mesh) check_mesh(mesh);
}

TEST_CASE("a deviation is seen") {
  const MlpCase model{Trait::bias, 2, true, f64};
  const Contents reference = run_serial(model);
  Contents other = reference;
  other["dense1.kernel"][3] *= 1 + 1e-6;
  CHECK(deviation(reference, reference) == 0);
  CHECK(deviation(other, reference) > tolerance(f64));
}
