/// Shared costs whose copies have states with usages: bounds, choices and refusals against enumeration.
#include <alpa/base/error.h>
#include <doctest/doctest.h>

#include "../../src/ilp/copy_moves.h"
#include "../../src/ilp/dual.h"
#include "../../src/ilp/reduce.h"
#include "../../src/ilp/shared_terms.h"
#include "alpa/ilp/solve.h"
#include "random_problem.h"

namespace alpa::ilp {
namespace {

using testing::Draw;

SharedEnd draw_grouped_end(Draw& draw, const Problem& problem, int node, int classes) {
  SharedEnd end{node, {}, draw.below(2)};
  for (std::size_t s = 0; s < problem.nodes[node].costs.size(); ++s)
    end.classes.push_back(draw.below(classes));
  return end;
}

/// Absent, own, made for one group or the other, once for both, twice for both.
void add_copy(Draw& draw, Problem& problem, SharedCost& shared, int column) {
  const std::vector<Supply> supplies = {
      {}, {0, 0, true}, {1, 1, false}, {1, 2, false}, {1, 3, false}, {2, 3, false}};
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
Problem draw_shared(std::uint64_t seed) {
  Draw draw{std::mt19937_64(seed)};
  Problem problem;
  const int ends = draw.between(3, 5), largest = draw.chance(50) ? 3 : 1000;
  problem.nodes.resize(static_cast<std::size_t>(ends));
  for (Node& node : problem.nodes)
    node.costs = testing::draw_costs(draw, static_cast<std::size_t>(draw.between(1, 3)), 5, largest);
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
    std::vector<std::int64_t> costs =
        testing::draw_costs(draw, static_cast<std::size_t>(shared.rows * shared.columns), 10, largest);
    for (std::int64_t& cost : costs) cost = std::max<std::int64_t>(cost, 0);
    shared.costs = table(std::move(costs));
    for (int column = 0; column < shared.columns && copies > 0; ++column)
      if (draw.chance(60)) add_copy(draw, problem, shared, column), --copies;
    problem.shared.push_back(std::move(shared));
  }
  if (draw.chance(85)) problem.usage_limit = draw.between(4, 9) * ends;
  return problem;
}

/// As problem.h says it; kInfinite: forbidden.
std::int64_t price_by_hand(const SharedCost& shared, const std::vector<int>& choice) {
  const int row = shared.source.classes[choice[shared.source.node]];
  std::int64_t sum = 0;
  for (int column = 0; column < shared.columns; ++column) {
    const std::int64_t cost = (*shared.costs)[row * shared.columns + column];
    const auto copy = std::find_if(shared.copies.begin(), shared.copies.end(),
                                   [&](const SharedCopy& c) { return c.column == column; });
    const bool copied = copy != shared.copies.end();
    const Supply supply = copied ? copy->supplies[choice[copy->node]] : Supply{};
    bool wanted = false;
    for (const SharedEnd& reader : shared.readers) {
      if (reader.classes[choice[reader.node]] != column) continue;
      wanted = true;
      if (copied && !supply.own && !(supply.serves >> reader.group & 1)) return kInfinite;
    }
    if (copied && supply.own && row != copy->home) return kInfinite;
    const int times = copied ? (supply.own ? 0 : supply.times) : (wanted ? 1 : 0);
    if (times > 0 && cost >= kInfinite) return kInfinite;
    sum += times * cost;
  }
  return sum;
}

testing::Enumerated enumerate_shared(const Problem& problem) {
  testing::Enumerated best;
  std::vector<int> choice(problem.nodes.size(), 0);
  for (bool more = true; more;) {
    std::int64_t cost = 0, peak = 0;
    for (std::size_t i = 0; i < choice.size(); ++i)
      cost = std::min(kInfinite, cost + problem.nodes[i].costs[choice[i]]);
    for (const Edge& e : problem.edges)
      cost = std::min(kInfinite,
                      cost + (*e.costs)[choice[e.a] * problem.nodes[e.b].costs.size() + choice[e.b]]);
    for (const SharedCost& shared : problem.shared)
      cost = cost < kInfinite / 2 ? std::min(kInfinite, cost + price_by_hand(shared, choice)) : cost;
    for (int time = 0; time < 12 && cost < kInfinite / 2; ++time) {
      std::int64_t used = 0;
      for (std::size_t i = 0; i < choice.size(); ++i)
        for (const Usage& u : problem.nodes[i].usages)
          if (u.from <= time && time < u.to) used += u.amounts[choice[i]];
      peak = std::max(peak, used);
    }
    if (cost < kInfinite / 2) {
      best.least_peak = std::min(best.least_peak.value_or(peak), peak);
      if (!problem.usage_limit || peak <= *problem.usage_limit)
        best.cost = std::min(best.cost.value_or(cost), cost);
    }
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == static_cast<int>(problem.nodes[i].costs.size()))
      choice[i++] = 0;
    more = i < choice.size();
  }
  return best;
}

Options dual_alone() {
  Options options;
  options.use_cbc = options.neighbourhoods = false;
  options.reductions.elimination = false;
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

TEST_CASE("Shared costs with copies: bound, optimum and choice agree with enumeration") {
  int solved = 0, refused = 0;
  for (std::uint64_t seed = 700'000; seed < 702'200; ++seed) {
    CAPTURE(seed);
    const Problem problem = draw_shared(seed);
    const testing::Enumerated best = enumerate_shared(problem);
    ++(best.cost ? solved : refused);
    if (seed % 16 == 0) check_solution(problem, {}, best, true);
    if (best.cost) check_solution(problem, dual_alone(), best, false);
  }
  CHECK(solved > 1000);
  CHECK(refused > 100);
}

TEST_CASE("The split of copies with usages bounds the optimum under any multipliers") {
  int models = 0, tight = 0;
  for (std::uint64_t seed = 710'000; seed < 712'000; ++seed) {
    CAPTURE(seed);
    const Problem problem = draw_shared(seed);
    const auto best = enumerate_shared(problem).cost;
    if (!best) continue;
    try {
      Model model = build(problem, true, Deadline(60));
      Options options;
      options.reductions = {true, false, false, false, false, false, false, false};
      reduce(model, options, Deadline(60));
      Dual dual(model);
      for (int k = 0; k < 6; ++k) {
        std::vector<double> multipliers;
        for (std::size_t r = 0; r < model.room.size(); ++r)
          multipliers.push_back(k < 2 ? 0
                                      : 0.37 * static_cast<double>((r + static_cast<std::size_t>(k)) % 4));
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

}  // namespace alpa::ilp
