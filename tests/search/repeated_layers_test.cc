// First plans of stacks of equal layers: as few choices for many layers as for few.
#include "src/search/program/repeated_layers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "search/gpt_plans.h"
#include "src/ilp/model/fold.h"
#include "src/ilp/solve.h"
#include "src/plan/evaluation/evaluate.h"

namespace repeated_layers_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Stack {
  explicit Stack(int layers)
      : graph(gpt_graph({.layers = layers, .sequence = 128, .hidden = 512, .heads = 8})),
        space(intra_op::search_space(graph, {}, cache.of(mesh, model))),
        instance(intra_op::build_instance(graph, space, mesh, intra_op::MemoryLimit{500'000'000})) {
  }

  const Cluster cluster = gpu_cluster(1, 8);
  const DeviceMesh mesh = cluster.mesh({2, 4});
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph;
  intra_op::PlanningCache cache;
  const intra_op::SearchSpace space;
  const intra_op::Instance instance;
};

std::size_t different(std::vector<int> groups) {
  return std::set<int>(groups.begin(), groups.end()).size();
}

}  // namespace

TEST_CASE("a stack has as many groups of nodes with 48 layers as with 12, and none with one") {
  const Stack few(12), many(48), one(1);
  const auto groups_of = [](const Stack& stack) {
    return intra_op::repeated_layers(stack.graph, stack.space, stack.instance);
  };
  REQUIRE(!groups_of(few).empty());
  CHECK(different(groups_of(few)) == different(groups_of(many)));
  CHECK(groups_of(one).empty());
}

TEST_CASE("the folded program of a stack has the cost and the memory of the plans it stands for") {
  const Stack stack(12);
  const auto folded = ilp::fold(
      stack.instance.problem, intra_op::repeated_layers(stack.graph, stack.space, stack.instance));
  REQUIRE(folded);
  CHECK(folded->problem.nodes.size() < stack.instance.problem.nodes.size() / 2);
  ilp::Options options;
  options.limits.relative_gap = 0.02;
  const ilp::Solution solution = ilp::solve(folded->problem, options);
  const ilp::Evaluation all =
      ilp::evaluate(stack.instance.problem, folded->unfolded(solution.choice));
  CHECK(all.feasible);
  CHECK(all.cost == solution.cost);
  CHECK(all.peak_usage == solution.peak_usage);
}

}  // namespace repeated_layers_test
