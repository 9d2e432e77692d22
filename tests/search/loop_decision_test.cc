// When one layout for all members of a loop loses nothing (docs/cost-model.md, "Loops").
// The planner, whose members decide one by one, against the same problem with layouts
// inside loops forced to agree.
#include <doctest/doctest.h>

#include <random>

#include "alpa/ops/ops.h"
#include "search/plans.h"
#include "src/ilp/solve.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/plan/facts/fusion.h"
#include "src/search/program/instance.h"

namespace loop_decision_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Forbids other layouts at the ends of every value inside a loop.
void force_agreement(const Graph& graph, const intra_op::SearchSpace& space,
                     ilp::Problem& problem) {
  for (const std::vector<intra_op::Reader>& readers : intra_op::readers_of_values(graph, space))
    for (const intra_op::Reader& reader : readers) {
      const int operand = reader.use.operand;
      if (operand < 0 || !space.graph->classes.share_of(reader.node).reads_inside(operand))
        continue;
      const ValueInfo& source = graph.values[reader.use.source];
      std::vector<std::int64_t> costs;
      for (int have : space.of(source.producer).result_specs[source.index])
        for (int wanted : *reader.wanted) costs.push_back(have == wanted ? 0 : ilp::kInfinite);
      problem.edges.push_back({source.producer, reader.node, ilp::table(std::move(costs))});
    }
}

struct Least {
  double apart = 0, agreed = 0;  ///< seconds of a step
  bool reshards = false;
};

/// State, and so what replaces it, is held by the devices in this way.
Least least_of(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
               intra_op::Holding state) {
  intra_op::AutoShardOptions options;
  options.allowed.parameters = state;
  intra_op::PlanningCache cache;
  const intra_op::SearchSpace space = intra_op::search_space(graph, options, cache.of(mesh, model));
  const intra_op::Instance instance = intra_op::build_instance(graph, space, mesh);
  ilp::Problem agreed = instance.problem;
  force_agreement(graph, space, agreed);
  const auto seconds = [&](const ilp::Problem& problem) {
    const ilp::Solution solution = ilp::solve(problem);
    REQUIRE(solution.optimal);
    return static_cast<double>(solution.cost) / instance.units_per_second;
  };
  const ShardingPlan plan = intra_op::auto_shard(graph, mesh, model, options);
  const Least least{seconds(instance.problem), seconds(agreed), !plan.reshards.empty()};
  CHECK(plan.cost.objective_seconds == doctest::Approx(least.apart));
  return least;
}

cost::CostModel model_of(double flops_per_second, double bytes_per_second) {
  cost::CostModel model;
  model.device.flops_per_second[f32] = model.device.flops_per_second[f16] = flops_per_second;
  model.device.memory_bytes_per_second = bytes_per_second;
  model.reshard.memory_bytes_per_second = bytes_per_second;
  return model;
}

void keep(Recorder& g, Value v, const std::string& name = "s") {
  g.update(g.input(InputKind::state, name, v.type()), v);
}

std::size_t members_of_largest_loop(const Graph& graph) {
  std::size_t most = 0;
  for (const std::vector<int>& loop : intra_op::fusion_groups(graph))
    most = std::max(most, loop.size());
  return most;
}

}  // namespace

TEST_CASE(
    "a loop loses nothing by one layout if each member reads one value, for itself, of one type") {
  std::mt19937_64 random(1);
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(n));
  };
  int resharded = 0;
  for (int graphs = 0; graphs < 60; ++graphs) {
    Recorder g(1);
    const std::int64_t rows = 2 + below(7), columns = 2 + below(7);
    Value x = g.input(InputKind::batch, "x", {f32, {rows, columns}});
    for (int i = 2 + below(3); i > 0; --i)
      x = below(2) == 0 ? relu(x) : below(2) == 0 ? square(x) : exp(x);
    keep(g, x);
    // Wanted whole, while less work is done where it is split.
    const auto state = below(4) > 0 ? intra_op::Holding::whole : intra_op::Holding::any;
    const Graph graph = g.finish();
    REQUIRE(members_of_largest_loop(graph) >= 2);
    const double sizes[] = {0.01, 0.1, 1, 10};
    cost::CostModel model =
        model_of(below(2) == 0 ? 1 : 100, std::vector<double>{1, 10, 1000}[below(3)]);
    model.device.launch_seconds = model.reshard.launch_seconds = below(2);
    const DeviceMesh mesh = below(2) == 0 ? priced_mesh({2 + below(3)}, {1}, {sizes[below(4)]})
                                          : priced_mesh({2, 2 + below(2)}, {1, sizes[below(4)]},
                                                        {sizes[below(4)], sizes[below(4)]});
    CAPTURE(to_string(graph));
    const Least least = least_of(graph, mesh, model, state);
    CHECK(least.agreed == doctest::Approx(least.apart));
    resharded += least.reshards;
  }
  CHECK(resharded > 20);
}

TEST_CASE(
    "a loop loses by one layout where it sums partial sums, narrows a value or has another reader "
    "within") {
  // Rows and columns are too few to be split, so that the products are split along k and summed.
  const TensorType rows{f32, {2, 8}}, columns{f32, {8, 3}};
  const auto product = [&](Recorder& g, const std::string& name) {
    return einsum("ik,kj->ij", g.input(InputKind::batch, name, rows),
                  g.input(InputKind::state, "w" + name, columns));
  };
  const DeviceMesh mesh({{"x", 4, 5, 0.01}});
  SUBCASE("partial sums") {
    Recorder g(1);
    keep(g, relu(product(g, "x") + product(g, "y")));
    const Graph graph = g.finish();
    REQUIRE(members_of_largest_loop(graph) == 2);
    const Least least = least_of(graph, mesh, model_of(1, 1000), intra_op::Holding::any);
    CHECK(least.agreed > least.apart + 4);  // one all-reduce more: 5 s and its bytes
  }
  SUBCASE("a narrower value") {
    Recorder g(1);
    const Value x = g.input(InputKind::batch, "x", {f32, {64, 64}});
    keep(g, cast(relu(cast(x, f16)), f32));
    const Graph graph = g.finish();
    REQUIRE(members_of_largest_loop(graph) == 3);
    const Least least = least_of(graph, mesh, model_of(10, 1000), intra_op::Holding::whole);
    CHECK(least.agreed > least.apart + 1);  // gathered in f32 instead of f16
  }
  SUBCASE("another reader") {
    Recorder g(1);
    const Value u = exp(exp(exp(g.input(InputKind::batch, "x", {f32, {64, 64}}))));
    keep(g, u);
    keep(g, square(u), "t");
    const Graph graph = g.finish();
    REQUIRE(members_of_largest_loop(graph) == 4);
    // u is gathered for its update, which takes about 400 s. The square can be made of that copy in
    // 410 s, 307 s more than of a quarter of u, and needs no gather then.
    const Least least = least_of(graph, priced_mesh({4}, {5}, {0.0325}), model_of(10, 1000),
                                 intra_op::Holding::whole);
    CHECK(least.agreed > least.apart + 50);
  }
}

}  // namespace loop_decision_test
