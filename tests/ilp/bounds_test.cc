/// The parts that prove bounds, on their own: the whole solver could hide a wrong
/// one behind a lucky choice.
#include <doctest/doctest.h>

#include "../../src/ilp/dual/dual.h"
#include "../../src/ilp/reduce/presolve.h"
#include "../../src/ilp/search/local_search.h"
#include "random_problem.h"

namespace alpa::ilp::bounds_test {
namespace {

/// Least cost of a choice of the live nodes that keeps the rows, by trying all.
Cost enumerate_model(const Model& model) {
  Cost best = kNever;
  std::vector<int> nodes = live_nodes(model), choice(model.nodes.size(), 0);
  for (bool more = true; more;) {
    if (fits(model, choice)) best = std::min(best, price(model, choice));
    std::size_t i = 0;
    while (i < nodes.size() && ++choice[nodes[i]] == model.nodes[nodes[i]].size())
      choice[nodes[i++]] = 0;
    more = i < nodes.size();
  }
  return best;
}

Options consistency_alone() {
  Options options;
  options.methods.presolve = {true, false, false, false, false, false, false, false};
  return options;
}

/// Calls `check` with models that have a feasible choice; returns how many.
template <class Check>
int for_each_model(std::uint64_t first, int count, const Check& check,
                   Problem (*draw)(std::uint64_t, int) = testing::draw_problem) {
  int models = 0;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    try {
      Model model = build(draw(seed, 5), true, Deadline(60));
      presolve(model, consistency_alone(),
               Deadline(60));  // parallel edges can contradict each other
      Cost optimum = enumerate_model(model);
      if (optimum >= kNever) continue;
      INFO("seed " << seed);
      check(model, optimum);
      ++models;
    } catch (const Contradiction&) {
    }
  }
  return models;
}

void raise_multipliers(const Model& model, Dual& dual, int k) {
  std::vector<double> multipliers;
  for (std::size_t r = 0; r < model.slack.size(); ++r)
    multipliers.push_back(0.37 * static_cast<double>((r + static_cast<std::size_t>(k)) % 4));
  dual.set_multipliers(std::move(multipliers));
}

TEST_CASE("the dual bound never exceeds the optimum, whatever the multipliers") {
  int tight = 0;
  int models = for_each_model(500'000, 1500, [&](const Model& model, Cost optimum) {
    Dual dual(model);
    for (int k = 0; k < 6; ++k) {
      if (k > 2) raise_multipliers(model, dual, k);
      dual.sweep();
      Cost bound = dual.exact().proven();
      CHECK(bound <= optimum);
      tight += bound == optimum;
    }
  });
  CHECK(models > 700);
  CHECK(tight > models);  // the bound is worth something
}

TEST_CASE("fixing keeps every optimum and removes something") {
  std::int64_t removed = 0;
  for_each_model(510'000, 1500, [&](Model& model, Cost optimum) {
    Dual dual(model);
    for (int k = 0; k < 4; ++k) dual.sweep();
    removed += dual.fix(model, dual.exact(), optimum + 1);
    CHECK(enumerate_model(model) == optimum);
  });
  CHECK(removed > 1000);
}

TEST_CASE("fixing with a cutoff at the optimum leaves nothing cheaper") {
  for_each_model(520'000, 500, [](Model& model, Cost optimum) {
    Dual dual(model);
    dual.sweep();
    try {
      dual.fix(model, dual.exact(), optimum);
      CHECK(enumerate_model(model) >= optimum);
    } catch (const Contradiction&) {  // nothing is left at all
    }
  });
}

TEST_CASE("repaired and improved choices keep the rows") {
  int repaired = 0;
  for_each_model(540'000, 800, [&](const Model& model, Cost optimum) {
    std::vector<int> choice(model.nodes.size(), 0);
    if (!repair(model, choice, 50, Deadline(60))) return;
    Cost before = price(model, choice);
    CHECK(fits(model, choice));
    improve(model, choice, Deadline(60));
    CHECK(fits(model, choice));
    CHECK(price(model, choice) <= before);
    CHECK(price(model, choice) >= optimum);
    ++repaired;
  });
  CHECK(repaired > 100);
}

}  // namespace
}  // namespace alpa::ilp::bounds_test
