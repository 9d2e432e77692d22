// Parts of a graph are planned, written and partitioned like graphs; what
// planning finds out is kept.
#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "alpa/nn/layers.h"
#include "alpa/train/training_step.h"
#include "search/plans.h"
#include "src/ir/layers.h"
#include "src/ir/subgraph.h"
#include "src/search/space/planning_cache.h"
#include "src/spmd/program.h"

namespace part_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Graph dropout_stack(int layers) {
  const TensorType type{f32, {16, 32}};
  const auto model = [layers](const Batch& batch) {
    Value h = batch["x"];
    for (int layer = 0; layer < layers; ++layer) {
      const LayerScope scope(*h.builder, layer);
      const Value w = h.builder->parameter(fmt::format("w{}", layer), {f32, {32, 32}}, {});
      h = nn::Dropout(0.5)(matmul(relu(h), w));
    }
    return LossAndMetrics{mean(square(h - batch["y"]))};
  };
  return with_layers(training_step({{"x", type}, {"y", type}}, model, optim::Adam{}).trace(1));
}

const DeviceMesh kMesh = priced_mesh({2, 2}, {1e-6, 1e-6}, {1e-9, 1e-9});

}  // namespace

TEST_CASE("an output of a part is left as it is produced") {
  const Graph part = subgraph(dropout_stack(3), 1, 1).graph;
  REQUIRE(part.outputs.size() >= 2);
  const ShardingPlan plan =
      intra_op::auto_shard(part, kMesh, cost::CostModel::of(Cluster::local(4)), {});
  verify(plan, part);
  const std::string text = to_json(plan, part);
  CHECK(to_json(plan_from_json(text, part, "p.json"), part) == text);
  std::string older = text;  // which named the specs of outputs
  older.insert(older.find("\"graph_text\""), R"("outputs": ["R", "R"], )");
  CHECK(to_json(plan_from_json(older, part, "p.json"), part) == text);
  const spmd::SpmdProgram program = spmd::partition(part, plan);
  verify(program);
  REQUIRE(program.graph.outputs.size() == part.outputs.size());
  for (std::size_t o = 0; o < part.outputs.size(); ++o) {
    CHECK(program.graph.outputs[o].name == part.outputs[o].name);
    CHECK(program.specs[program.graph.outputs[o].value] == plan.specs[part.outputs[o].value]);
  }
  verify(spmd::fuse_elementwise(program));
}

TEST_CASE("a planning cache learns nothing new from more layers, and changes no plan") {
  intra_op::PlanningCache cache;
  const cost::CostModel model = cost::CostModel::of(Cluster::local(4));
  intra_op::auto_shard(dropout_stack(3), kMesh, model, {}, &cache);
  const int rules = cache.rules.size();
  intra_op::MeshFacts& facts = cache.of(kMesh, model);
  const std::size_t strategies = facts.strategies.size();
  const int searches = facts.prices.searches();
  CHECK(rules > 10);
  CHECK(strategies >= static_cast<std::size_t>(rules));
  const Graph longer = dropout_stack(6);
  const ShardingPlan plan = intra_op::auto_shard(longer, kMesh, model, {}, &cache);
  CHECK(cache.meshes.size() == 1);
  CHECK(cache.rules.size() == rules);
  CHECK(facts.strategies.size() == strategies);
  CHECK(facts.prices.searches() == searches);
  CHECK(to_json(plan, longer) == to_json(intra_op::auto_shard(longer, kMesh, model, {}), longer));
}

}  // namespace part_test
