// What resharding costs on a mesh is found out once for all search spaces there.
#include <doctest/doctest.h>

#include "src/intra_op/search_space.h"
#include "tests/support/gpt_stack.h"

using namespace alpa;

TEST_CASE("restrictions of a search space need no price that the whole has not found out") {
  const Cluster cluster = Cluster::local(8);
  const DeviceMesh mesh = cluster.mesh({2, 4});
  const CostModel model = CostModel::of(cluster);
  const Graph graph = testing::gpt_graph({.layers = 2});
  PlanningCache cache;
  MeshFacts& facts = cache.facts().of(mesh, model);
  const SearchSpace whole = search_space(graph, {}, facts);
  const int searches = facts.prices.searches();
  CHECK(searches > 0);
  for (const AutoShardOptions& part : {data_parallel_options(), zero2_options(), zero3_options()}) {
    const SearchSpace space = search_space(graph, part, facts);
    CHECK(space.choices.size() > 0);
    CHECK(facts.prices.searches() == searches);
  }
}
