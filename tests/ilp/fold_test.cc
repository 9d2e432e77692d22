// Folded problems: nodes of a group choose alike, and cost what they cost one by one.
#include "src/ilp/model/fold.h"

#include <doctest/doctest.h>

#include <map>

#include "random_problem.h"

namespace alpa::ilp::fold_test {
namespace {

/// Nodes with as many strategies fall into few groups, numbered by their first nodes.
std::vector<int> draw_groups(testing::Draw& draw, const Problem& problem) {
  std::map<std::pair<std::size_t, int>, int> numbers;
  std::vector<int> groups;
  for (const Node& node : problem.nodes)
    groups.push_back(
        numbers.try_emplace({node.costs.size(), draw.below(2)}, static_cast<int>(numbers.size()))
            .first->second);
  return groups;
}

std::vector<int> draw_choice(testing::Draw& draw, const Problem& problem) {
  std::vector<int> choice;
  for (const Node& node : problem.nodes)
    choice.push_back(draw.below(static_cast<int>(node.costs.size())));
  return choice;
}

}  // namespace

TEST_CASE("a folded problem is valid, and costs and uses what the choice does that it stands for") {
  int folded_problems = 0, allowed = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    testing::Draw draw{std::mt19937_64(seed)};
    const Problem problem = testing::draw_sharing_problem(seed, 8);
    const std::optional<Folded> folded = fold(problem, draw_groups(draw, problem));
    if (!folded) continue;
    ++folded_problems;
    validate(folded->problem);
    for (int k = 0; k < 5; ++k) {
      const std::vector<int> choice = draw_choice(draw, folded->problem);
      const Evaluation few = evaluate(folded->problem, choice),
                       all = evaluate(problem, folded->unfolded(choice));
      CHECK(few.cost == all.cost);
      CHECK(few.peak_usage == all.peak_usage);
      CHECK(few.feasible == all.feasible);
      allowed += all.feasible;
    }
  }
  CHECK(folded_problems > 500);
  CHECK(allowed > 500);
}

TEST_CASE("copies are one where their shared costs are alike") {
  const Table cheap = table({0, 7, 3, 0}), dear = table({0, 7, 8, 0});
  Problem problem;
  for (int layer = 0; layer < 3; ++layer) {
    const int source = static_cast<int>(problem.nodes.size());
    problem.nodes.push_back({{0, 5}, {}});  // leaves row 0 or 1
    problem.nodes.push_back({{0, 0}, {}});  // wants column 0 or 1
    problem.nodes.push_back({{0, 0}, {{layer, layer + 2, {0, 4}}}});
    problem.shared.push_back({{source, {0, 1}},
                              {{source + 1, {0, 1}, 0}},
                              2,
                              2,
                              layer == 2 ? dear : cheap,
                              {{source + 2, 1, -1, {{}, {1, 1, false}}}}});
  }
  problem.usage_limit = 100;
  const std::optional<Folded> folded = fold(problem, {0, 1, -1, 0, 1, -1, 0, 1, -1});
  REQUIRE(folded);
  validate(folded->problem);
  CHECK(folded->problem.nodes.size() == 4);  // two of the layers, and the copy of the third
  CHECK(folded->of_node == std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 3});
  const std::vector<int> copied = {0, 1, 1, 1};
  CHECK(evaluate(folded->problem, copied).cost == 3 * 7);
  CHECK(evaluate(folded->problem, copied).peak_usage == 8);
  CHECK(evaluate(problem, folded->unfolded(copied)).cost == 3 * 7);
}

TEST_CASE("no problem is folded in which a reader would be at its source") {
  Problem problem;
  problem.nodes = {{{0}, {}}, {{0}, {}}};
  problem.shared.push_back({{0, {0}}, {{1, {0}, 0}}, 1, 1, table({2}), {}});
  CHECK(!fold(problem, {0, 0}));
  CHECK(fold(problem, {0, 1}));
}

}  // namespace alpa::ilp::fold_test
