// What resharding costs on a mesh is found out once for all search spaces there.
#include <doctest/doctest.h>

#include "src/search/space/search_space.h"
#include "tests/support/gpt_stack.h"

namespace kept_prices_test {

using namespace alpa;

TEST_CASE("restrictions of a search space need no price that the whole has not found out") {
  const Cluster cluster = Cluster::local(8);
  const DeviceMesh mesh = cluster.mesh({2, 4});
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph = testing::gpt_graph({.layers = 2});
  intra_op::PlanningCache cache;
  intra_op::MeshFacts& facts = cache.of(mesh, model);
  const intra_op::SearchSpace whole = intra_op::search_space(graph, {}, facts);
  const int searches = facts.prices.searches();
  CHECK(searches > 0);
  for (const intra_op::AutoShardOptions& part :
       {intra_op::data_parallel_options(), intra_op::zero2_options(), intra_op::zero3_options()}) {
    const intra_op::SearchSpace space = intra_op::search_space(graph, part, facts);
    CHECK(space.choices.size() > 0);
    CHECK(facts.prices.searches() == searches);
  }
}

}  // namespace kept_prices_test
