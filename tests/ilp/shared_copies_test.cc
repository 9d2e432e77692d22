// Shared costs whose copies have states with usages: bounds, choices and
// refusals against enumeration.
#include <doctest/doctest.h>

#include "../../src/ilp/dual/dual.h"
#include "../../src/ilp/reduce/presolve.h"
#include "alpa/base/error.h"
#include "random_problem.h"
#include "src/ilp/solve.h"
#include "support/error_text.h"
#include "support/nightly.h"

namespace alpa::ilp::shared_copies_test {
namespace {

using testing::Draw;

SharedEnd draw_grouped_end(Draw& draw, const Problem& problem, int node, int classes) {
  const int group = draw.below(2);
  SharedEnd end = testing::draw_end(draw, problem, node, classes);
  end.group = group;
  return end;
}

/// Absent, own, made for one group or the other, once for both, twice for both; or for one of them
/// as often as several rounds need, and once for both and all rounds.
void add_copy(Draw& draw, Problem& problem, SharedCost& shared, int column) {
  const int rounds = draw.chance(50) ? draw.between(2, 8) : 1;
  const std::vector<Supply> supplies = {{},
                                        {0, 0, true},
                                        {rounds, 1, false},
                                        {rounds, 2, false},
                                        {1, 3, false},
                                        {2 * rounds, 3, false}};
  const int node = static_cast<int>(problem.nodes.size());
  problem.nodes.push_back({std::vector<std::int64_t>(supplies.size(), 0), {}});
  for (int u = draw.between(0, 2); u > 0; --u) {
    Usage usage{draw.between(0, 4), 0, {0}};
    usage.to = usage.from + draw.between(0, 4);
    for (std::size_t s = 1; s < supplies.size(); ++s) usage.amounts.push_back(draw.between(0, 9));
    problem.nodes.back().usages.push_back(std::move(usage));
  }
  shared.copies.push_back({node, column, draw.between(-1, shared.rows - 1), supplies});
}

/// One or two shared costs over three to five nodes with edges and usages; at most three copies.
Problem draw_copies(std::uint64_t seed) {
  Draw draw{std::mt19937_64(seed)};
  Problem problem;
  const int ends = draw.between(3, 5), largest = draw.chance(50) ? 3 : 1000;
  problem.nodes.resize(static_cast<std::size_t>(ends));
  for (Node& node : problem.nodes)
    node.costs =
        testing::draw_costs(draw, static_cast<std::size_t>(draw.between(1, 3)), 5, largest);
  for (int i = 1; i < ends; ++i)
    if (draw.chance(40)) testing::connect(draw, problem, draw.below(i), i, 10, largest);
  testing::draw_usages(draw, problem);
  int copies = draw.between(1, 3);
  for (int k = draw.between(1, 2); k > 0; --k) {
    const int source = draw.below(ends);
    SharedCost shared{{}, {}, draw.between(1, 3), draw.between(1, 3), nullptr};
    shared.source = draw_grouped_end(draw, problem, source, shared.rows);
    for (int i = 0; i < ends; ++i)
      if (i != source && draw.chance(80))
        shared.readers.push_back(draw_grouped_end(draw, problem, i, shared.columns));
    std::vector<std::int64_t> costs = testing::draw_costs(
        draw, static_cast<std::size_t>(shared.rows * shared.columns), 10, largest);
    for (std::int64_t& cost : costs) cost = std::max<std::int64_t>(cost, 0);
    shared.costs = table(std::move(costs));
    for (int column = 0; column < shared.columns && copies > 0; ++column)
      if (draw.chance(60)) add_copy(draw, problem, shared, column), --copies;
    problem.shared.push_back(std::move(shared));
  }
  if (draw.chance(85)) problem.usage_limit = draw.between(4, 9) * ends;
  return problem;
}

/// Two copies whose states use either little or far more than the few units of slack.
Problem draw_huge(std::uint64_t seed) {
  constexpr std::int64_t kCost = 1'000'000, kHuge = 1'000'000'000'000;
  Draw draw{std::mt19937_64(seed)};
  Problem problem;
  problem.nodes.resize(4);
  for (Node& node : problem.nodes)
    node.costs = {draw.below(1000) * kCost, draw.below(1000) * kCost};
  problem.nodes[3].usages.push_back({0, 8, {0, 3}});
  problem.nodes[0].usages.push_back({0, 8, {draw.below(3), draw.below(3)}});
  SharedCost shared{{0, {0, 1}}, {{1, {0, 1}, 0}, {2, {0, 1}, 1}}, 2, 2, nullptr};
  std::vector<std::int64_t> costs;
  for (int c = 0; c < 4; ++c) costs.push_back(draw.below(1000) * kCost);
  shared.costs = table(std::move(costs));
  for (int column : {0, 1}) {
    add_copy(draw, problem, shared, column);
    Usage usage{0, 8, {0}};
    for (int s = 1; s < 6; ++s)
      usage.amounts.push_back(draw.chance(50) ? draw.below(3) : kHuge * draw.below(1000));
    problem.nodes.back().usages = {std::move(usage)};
  }
  problem.shared.push_back(std::move(shared));
  problem.usage_limit = 2 + draw.below(4);
  return problem;
}

Options dual_alone() {
  Options options;
  options.methods.use_cbc = options.methods.large_neighbourhood_search = false;
  options.methods.presolve.elimination = false;
  return options;
}

/// Bound, optimum and choice in order, or a proof that there is no choice.
void check_solution(const Problem& problem, const Options& options, const testing::Enumerated& best,
                    bool exact) {
  try {
    const Solution solution = solve(problem, options);
    REQUIRE(best.cost);
    CHECK(solution.lower_bound <= *best.cost);
    CHECK(solution.cost >= *best.cost);
    if (exact) CHECK(solution.cost == *best.cost);
    const Evaluation evaluation = evaluate(problem, solution.choice);
    CHECK(evaluation.feasible);
    CHECK(evaluation.cost == solution.cost);
  } catch (const Infeasible& infeasible) {
    CHECK_FALSE(best.cost);
    if (best.least_peak && problem.usage_limit) {
      CHECK(infeasible.missing_usage > 0);
      CHECK(infeasible.missing_usage <= *best.least_peak - *problem.usage_limit);
    }
  } catch (const TimedOut&) {
    CHECK_FALSE(exact);
  }
}

}  // namespace

TEST_CASE("shared costs with copies: bound, optimum and choice agree with enumeration") {
  int solved = 0, refused = 0;
  const int count = alpa::testing::sampled(700, 2200);
  for (std::uint64_t seed = 700'000; seed < 700'000 + static_cast<std::uint64_t>(count); ++seed) {
    CAPTURE(seed);
    const Problem problem = draw_copies(seed);
    const testing::Enumerated best = testing::enumerate(problem);
    ++(best.cost ? solved : refused);
    if (seed % 16 == 0) check_solution(problem, {}, best, true);
    Options silent;
    silent.explain = false;
    if (seed % 16 == 1) check_solution(problem, silent, best, true);
    Options priced = dual_alone();  // whatever the prices it starts from
    priced.usage_prices = {{0, static_cast<double>(seed % 7)}, {2, 0.5}, {3, 1e6}};
    if (best.cost && seed % 4 == 0) check_solution(problem, priced, best, false);
    if (best.cost) check_solution(problem, dual_alone(), best, false);
  }
  CHECK(solved > count * 5 / 11);
  CHECK(refused > count / 22);
}

TEST_CASE("the split of copies with usages bounds the optimum under any multipliers") {
  int models = 0, tight = 0;
  for (std::uint64_t seed = 710'000; seed < 712'000; ++seed) {
    CAPTURE(seed);
    const Problem problem = draw_copies(seed);
    const auto best = testing::enumerate(problem).cost;
    if (!best) continue;
    try {
      Model model = build(problem, true, Deadline(60));
      Options options;
      options.methods.presolve = {true, false, false, false, false, false, false, false};
      presolve(model, options, Deadline(60));
      Dual dual(model);
      for (int k = 0; k < 6; ++k) {
        std::vector<double> multipliers;
        for (std::size_t r = 0; r < model.slack.size(); ++r)
          multipliers.push_back(
              k < 2 ? 0 : 0.37 * static_cast<double>((r + static_cast<std::size_t>(k)) % 4));
        dual.set_multipliers(std::move(multipliers));
        dual.sweep();
        const Cost bound = model.constant + dual.exact().proven();
        CHECK(bound <= *best);
        CHECK(dual.bound() <= static_cast<double>(*best - model.constant) + 1e-6);
        tight += bound == *best;
      }
      ++models;
    } catch (const Contradiction&) {
      FAIL_CHECK("a problem with a choice has none");
    }
  }
  CHECK(models > 1000);
  CHECK(tight > models);
}

TEST_CASE("states that use far more than there is room for leave bound and choice in order") {
  Options options = dual_alone();
  options.limits.work = 1'000'000;
  for (std::uint64_t seed = 79; seed < 85; ++seed) {  // sums overflowed on 81
    CAPTURE(seed);
    const Problem problem = draw_huge(seed);
    check_solution(problem, options, testing::enumerate(problem), false);
  }
}

/// A value with 30 specs that all of `readers` can want, in three regions in turn.
Problem problem_of_copies(int readers) {
  const int specs = 30, groups = 3;
  std::vector<int> each;
  for (int s = 0; s < specs; ++s) each.push_back(s);
  Problem problem;
  problem.usage_limit = specs;
  problem.nodes.assign(static_cast<std::size_t>(readers) + 1,
                       {std::vector<std::int64_t>(specs, 0), {}});
  SharedCost shared{{0, each}, {}, specs, specs, nullptr};
  for (int j = 0; j < readers; ++j) shared.readers.push_back({j + 1, each, j % groups});
  const std::vector<Supply> supplies = {{}, {0, 0, true}, {1, 7, false}};
  for (int s = 0; s < specs; ++s) {
    shared.copies.push_back({static_cast<int>(problem.nodes.size()), s, s, supplies});
    problem.nodes.push_back({{0, 0, 0}, {{0, 1, {0, 0, 2}}}});
  }
  shared.costs = table(std::vector<std::int64_t>(static_cast<std::size_t>(specs * specs), 9));
  problem.shared.push_back(std::move(shared));
  return problem;
}

TEST_CASE("work counts that a sweep limits and levels what the readers of every set pay") {
  for (int readers : {6, 12}) {
    CAPTURE(readers);
    const Model model = build(problem_of_copies(readers), true, Deadline(60));
    const int pairs = 30 * 30, sets_of_groups = 7;
    CHECK(Dual(model).cells_of_sweep() >= 2 * pairs * sets_of_groups * readers);
  }
}

TEST_CASE("malformed copies are refused") {
  const Supply absent{}, own{0, 0, true}, made{1, 1, false};
  const SharedCopy good{2, 0, 0, {absent, own, made}};
  const auto refused = [&](const SharedCopy& copy,
                           const std::function<void(Problem&)>& change = {}) {
    Problem problem;
    problem.nodes = {{{0, 0}, {}}, {{0, 0}, {}}, {{0, 0, 0}, {}}};
    problem.shared = {{{0, {0, 1}}, {{1, {0, 1}, 1}}, 2, 2, table({0, 1, 1, 0}), {copy}}};
    if (change) change(problem);
    return alpa::testing::error_of([&] { validate(problem); });
  };
  CHECK(refused(good) == "no error");
  CHECK(refused({3, 0, 0, good.supplies}) ==
        "shared cost 0 has a copy at node 3 but there are 3 nodes; use indices from 0 to 2");
  CHECK(refused({2, 2, 0, good.supplies}) ==
        "shared cost 0 has a copy of column 2 with home 0 but 2 columns and 2 rows; count from 0");
  CHECK(refused({2, 0, 2, good.supplies}) ==
        "shared cost 0 has a copy of column 0 with home 2 but 2 columns and 2 rows; count from 0");
  CHECK(refused({2, 0, 0, {absent, made}}) ==
        "shared cost 0 gives 2 supplies to node 2, which has 3 strategies; give one per strategy");
  CHECK(refused({2, 0, 0, {absent, own, {-1, 1, false}}}) ==
        "shared cost 0 pays a supply of node 2 -1 times; use 0 or more, 4 different numbers, and 3 "
        "groups");
  CHECK(refused({2, 0, 0, {made, own, absent}}) ==
        "shared cost 0 has a copy at node 2 whose first strategy is not absence; "
        "it must cost least, use nothing and serve no group");
  CHECK(refused(good, [](Problem& p) { p.shared[0].readers[0].group = 3; }) ==
        "shared cost 0 has a reader of group 3; use 0 to 2");
  CHECK(refused(good, [](Problem& p) { p.shared.push_back(p.shared[0]); }) ==
        "node 2 decides two copies; give each copy its own node");
  CHECK(refused(good, [](Problem& p) {
          p.edges.push_back({1, 2, table(std::vector<std::int64_t>(6, 0))});
        }) == "node 2 decides a copy but has edges or other ends; give the copy its own node");
}

}  // namespace alpa::ilp::shared_copies_test
