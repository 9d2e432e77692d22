// The search for stages against an ILP per range of layers and part of the cluster.
#include "src/search/stages/stage_search.h"
#include "src/search/stages/cut_prices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "alpa/alpa.h"
#include "search/all_partitions.h"
#include "src/ir/lasting.h"
#include "src/ir/stages.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/evaluation/stage_seconds.h"
#include "src/search/stages/range_costs.h"
#include "src/search/stages/stage_graph.h"
#include "src/search/stages/stage_meshes.h"
#include "support/gpt_stack.h"
#include "support/planning_suite.h"

namespace stage_search_test {

using namespace alpa;

namespace {

constexpr int kMicroBatches = 8;
constexpr std::int64_t kMuch = std::int64_t{1} << 50;

/// Hosts of two devices whose links are so slow that stages are worth their bubble.
Cluster slow_links(int hosts) {
  Cluster cluster = Cluster::local(2);
  cluster.num_hosts = hosts;
  cluster.within_host.beta_seconds_per_byte *= 20;
  cluster.between_hosts.beta_seconds_per_byte *= 40;
  return cluster;
}

Graph graph_of(const char* model, int layers) {
  testing::SuiteShape shape{
      .stack = {.layers = layers, .batch = 32, .sequence = 16, .hidden = 128, .heads = 4}};
  return testing::suite_step(model, shape).trace(kMicroBatches);
}

/// A layer per product, of equal widths.
TrainingStep deep_mlp(int layers, Precision precision) {
  return training_step({{"x", {f32, {32, 64}}}},
                       [layers](const Batch& batch) {
                         Value x = batch["x"];
                         for (int layer = 0; layer < layers; ++layer) {
                           const LayerScope scope(batch.builder(), layer);
                           x = relu(nn::Dense{64}(x));
                         }
                         return mean(x * x);
                       },
                       optim::Adam{}, {.precision = precision});
}

int one_f_one_b(int after) { return std::min(kMicroBatches, after + 1); }

/// Every stage loads it.
bool is_given(const Graph& graph, int value) {
  const Input* input = find_input(graph, value);
  return input && (input->kind == InputKind::batch || input->kind == InputKind::shared ||
                   input->kind == InputKind::scalar);
}

struct Case {
  explicit Case(Graph g, Cluster c) : graph(std::move(g)), cluster(std::move(c)) {
    options.part.whole_boundary_inputs = true;
    options.limits.relative_gap = 0;
  }

  StageSearchSpace question(std::int64_t budget = kMuch) const {
    StageSearchSpace question{graph, cluster};
    question.budget = budget;
    question.submeshes = submeshes;
    return question;
  }

  Graph graph;
  Cluster cluster;
  std::vector<inter_op::Submesh> submeshes = inter_op::submesh_choices(
      {cluster.num_hosts, cluster.devices_per_host}, inter_op::SubmeshSpace::any_size);
  cost::CostModel model = cost::CostModel::of(cluster);
  intra_op::AutoShardOptions options;
  mutable intra_op::PlanningCache cache;
  PlanningContext planning{model, options, cache};
};

FoundStages found_stages(const StageSearchSpace& question, const PlanningContext& planning) {
  StageSearch search(question, planning);
  while (search.improve()) {
  }
  return search.finish();
}

/// Seconds of every range on every submesh, each planned on all logical meshes.
struct AllPlanned {
  inter_op::PartitionCosts costs;          ///< of a micro-batch
  std::vector<StageSeconds> seconds = {};  ///< as the costs are numbered
};

AllPlanned all_planned(const Case& c, const inter_op::LayerRanges& ranges) {
  AllPlanned all{{ranges.layers(), static_cast<int>(c.submeshes.size()), 1}};
  inter_op::PartitionCosts& costs = all.costs;
  all.seconds.resize(costs.seconds.size());
  for (int first = 0; first < costs.layers; ++first)
    for (int last = first; last < costs.layers; ++last)
      for (int m = 0; m < costs.submeshes; ++m) {
        std::vector<int> devices(c.submeshes[m].num_devices());
        std::iota(devices.begin(), devices.end(), 0);
        const Graph graph = ranges.graph_of({first, last}).graph;
        const ShardingPlan plan =
            intra_op::auto_shard(graph, logical_meshes(c.cluster, c.submeshes[m], devices), c.model,
                                 c.options, &c.cache);
        const std::size_t at = costs.index(first, last, m, 0);
        all.seconds[at] = stage_seconds(plan, graph, c.model);
        costs.seconds[at] = plan.cost.objective_seconds / kMicroBatches;
        costs.max_in_flight[at] = kMicroBatches;
      }
  return all;
}

/// Of all partitions, each played.
double least_played(const Case& c, const AllPlanned& all) {
  const CutPrices price(c.graph, with_stage_per_layer(c.graph), c.cluster, c.submeshes);
  const inter_op::Submesh whole{c.cluster.num_hosts, c.cluster.devices_per_host};
  double least = kInfinity;
  for (const inter_op::StagePartition& partition :
       testing::all_partitions(whole, c.submeshes, all.costs.layers)) {
    std::vector<StageSeconds> stages;
    std::vector<double> transfers;
    const std::vector<int> hosts = hosts_of(whole, partition);
    int before = -1;
    for (std::size_t s = 0; s < partition.stages.size(); ++s) {
      const inter_op::Stage& stage = partition.stages[s];
      const auto part = std::find(c.submeshes.begin(), c.submeshes.end(), stage.submesh);
      const int m = static_cast<int>(part - c.submeshes.begin());
      stages.push_back(all.seconds[all.costs.index(stage.first_layer, stage.last_layer, m, 0)]);
      if (s > 0)
        transfers.push_back(
            price.least(stage.first_layer, before, m, hosts[s] >= 0 && hosts[s - 1] == hosts[s])
                .per_micro_batch);
      before = m;
    }
    least = std::min(least,
                     played_seconds(ScheduleKind::one_f_one_b, kMicroBatches)(stages, transfers));
  }
  return least;
}

}  // namespace

TEST_CASE("the search finds what an ILP per range of layers and part of the cluster finds") {
  for (const auto& [model, layers, hosts] :
       {std::tuple{"residual-mlp", 3, 2}, {"attention", 3, 1}, {"gpt", 2, 1}}) {
    CAPTURE(model);
    const Case c(graph_of(model, layers), slow_links(hosts));
    const FoundStages found = found_stages(c.question(), c.planning);
    const double best = least_played(c, all_planned(c, inter_op::LayerRanges(c.graph)));
    CHECK(found.partition.stages.size() > 1);
    CHECK(found.seconds == doctest::Approx(best).epsilon(1e-6));
    CHECK(found.lower_bound <= best * (1 + 1e-6));
    CHECK(found.lower_bound >= best * (1 - 2e-2));
  }
}

TEST_CASE("stages that were planned beside the best ones are there to fall back on") {
  const Case c(graph_of("residual-mlp", 8), slow_links(2));
  StageSearchSpace question = c.question();
  question.templates = {{{{0, 7, {2, c.cluster.devices_per_host}}}}};
  StageSearch search(question, c.planning);
  const double one_stage = search.plan_equal(1);
  REQUIRE(one_stage < kInfinity);
  CHECK(search.best_seconds() == one_stage);
  while (search.improve()) {
  }
  const FoundStages found = search.finish();
  CHECK(found.is_complete);
  REQUIRE(found.partition.stages.size() > 1);
  CHECK(found.seconds < one_stage);
  CHECK_FALSE(search.other(found.seconds));  // none takes less
  const std::optional<FoundStages> other = search.other(1e9);
  REQUIRE(other);
  CHECK_FALSE(have_equal_cuts(other->partition, found.partition));
  CHECK(other->seconds >= found.seconds);
  CHECK(other->plans.size() == other->partition.stages.size());
}

TEST_CASE("first plans of equal stages take little more than the best, and can be planned again") {
  const Case c(graph_of("gpt", 6), slow_links(2));
  StageSearchSpace question = c.question();
  const int half = num_layers(c.graph) / 2;
  question.templates = {{{{0, half - 1, {1, c.cluster.devices_per_host}},
                          {half, num_layers(c.graph) - 1, {1, c.cluster.devices_per_host}}}}};
  StageSearch thorough(question, c.planning), quick(question, c.planning);
  const std::atomic<bool> none = false;
  const double best = thorough.plan_equal(2), first = quick.plan_equal(2, &none);
  REQUIRE(best < kInfinity);
  CHECK(first >= best * (1 - 1e-9));
  CHECK(first <= 1.05 * best);
  CHECK(quick.best_seconds() == first);
  CHECK(quick.bound() == 0);  // first plans prove nothing
  quick.plan_best_again();
  CHECK(quick.best_seconds() == doctest::Approx(best).epsilon(1e-9));
}

TEST_CASE("where the host launches slower than devices compute, stages share the launches evenly") {
  Cluster cluster = slow_links(1);
  cluster.software.operator_seconds = 1;
  const Case c(graph_of("gpt", 3), cluster);
  const inter_op::LayerRanges ranges(c.graph);
  const int last = ranges.layers() - 1;
  const auto launched = [&](int from, int to) {
    return launched_seconds(ranges.graph_of({from, to}).graph, cluster.software);
  };
  const PlayedSeconds played = played_seconds(ScheduleKind::one_f_one_b, kMicroBatches);
  const double one_stage = played({launched(0, last)}, {});
  double best = one_stage;
  for (int cut = 0; cut < last; ++cut)
    best = std::min(best, played({launched(0, cut), launched(cut + 1, last)}, {0}));
  REQUIRE(best < one_stage);
  const FoundStages found = found_stages(c.question(), c.planning);
  CHECK(found.seconds == doctest::Approx(best).epsilon(1e-3));
  CHECK(found.lower_bound > 0.99 * best);
  CHECK(found.lower_bound <= found.seconds);
}

TEST_CASE("stages on two hosts pass on over the link between hosts, wherever they would fit") {
  Cluster cluster = slow_links(2);
  const Graph graph = graph_of("residual-mlp", 3);
  const CutPrices price(graph, with_stage_per_layer(graph), cluster, {{1, 1}});
  CHECK(price.least(1, 0, 0).per_micro_batch == price.least(1, 0, 0, true).per_micro_batch);
  CHECK(price.least(1, 0, 0, false).per_micro_batch > price.least(1, 0, 0).per_micro_batch);
}

TEST_CASE(
    "tied weights and their gradient are paid for once per step, however many micro-batches") {
  const testing::GptStack stack{
      .layers = 3, .batch = 8, .sequence = 4, .hidden = 12, .heads = 3, .vocabulary = 7};
  Cluster cluster = Cluster::local(2);
  cluster.within_host = {0, 1e-9};
  for (const int micro_batches : {1, 2, 8}) {
    CAPTURE(micro_batches);
    const Graph graph = testing::gpt_step(stack, optim::Sgd{}).trace(micro_batches);
    const CutPrices price(graph, with_stage_per_layer(graph), cluster, {{1, 1}});
    for (const int layer : {1, 2}) {  // activation and table, there and back
      const CutSeconds cut = price.least(layer, 0, 0);
      CHECK(micro_batches * cut.per_micro_batch + cut.per_step ==
            doctest::Approx(2 * (8 * 4 * 12 + 7 * 12) * 4 * 1e-9));
      if (micro_batches > 1) CHECK(cut.per_step == doctest::Approx(2 * 7 * 12 * 4 * 1e-9));
    }
  }
}

TEST_CASE("every cut pays for all that passes it, whether an equal one is known or not") {
  Cluster cluster = Cluster::local(2);
  cluster.within_host = {0, 1e-9};
  for (const char* model : {"gpt-vocabulary", "residual-mlp", "bert", "moe"}) {
    CAPTURE(model);
    const Graph graph = testing::suite_step(model, testing::tiny_shape(5)).trace(4);
    const CutPrices price(graph, with_stage_per_layer(graph), cluster, {{1, 1}});
    for (int layer = 1; layer < num_layers(graph); ++layer) {
      std::vector<int> stages(num_layers(graph), 0);
      std::fill(stages.begin() + layer, stages.end(), 1);
      const Graph staged = stage_graph(graph, stages);
      std::map<int, int> times;  // by value that passes
      const std::vector<bool> lasting = lasting_values(staged);
      for (const Node& node : staged.nodes)
        for (int value : node.operands)
          if (staged.producer(value).layer != node.layer && !is_given(staged, value))
            times[value] = std::max(times[value], lasting[value] ? 1 : runs_per_step(staged, node));
      double bytes = 0;
      for (const auto& [value, runs] : times)
        bytes += runs * static_cast<double>(staged.type(value).bytes());
      const CutSeconds cut = price.least(layer, 0, 0);
      CHECK(4 * cut.per_micro_batch + cut.per_step == doctest::Approx(bytes * 1e-9));
    }
  }
}

TEST_CASE("a range costs at least what is proven of its parts") {
  for (const auto& [model, layers] : {std::pair{"residual-mlp", 3}, {"gpt", 2}}) {
    CAPTURE(model);
    const Case c(graph_of(model, layers), slow_links(1));
    RangeCosts costs(c.graph, c.cluster, {kMuch, c.submeshes, {}}, c.planning);
    const inter_op::PartitionCosts exact = all_planned(c, costs.ranges()).costs;
    const auto bound = [&](int first, int last) {
      for (int part = 0; part < static_cast<int>(c.submeshes.size()); ++part)
        while (costs.bound({{costs.ranges().class_of(first, last), part, 1}})) {
        }
    };
    for (int layer = 0; layer < costs.ranges().layers(); ++layer) bound(layer, layer);
    double least_ratio = 1;
    const auto check = [&] {
      const inter_op::PartitionCosts bounds = costs.table(RangeCosts::Ask::least);
      for (int first = 0; first < exact.layers; ++first)
        for (int last = first; last < exact.layers; ++last)
          for (int part = 0; part < exact.submeshes; ++part) {
            const double seconds = exact.seconds[exact.index(first, last, part, 0)];
            const double bound = bounds.seconds[bounds.index(first, last, part, 0)];
            CHECK(bound <= seconds * (1 + 1e-6));
            least_ratio = std::min(least_ratio, bound / seconds);
          }
    };
    check();
    CHECK(least_ratio > 0.5);
    for (int range = 0; range < costs.ranges().classes(); ++range)
      bound(costs.ranges().example(range).first, costs.ranges().example(range).last);
    least_ratio = 1;
    check();
    CHECK(least_ratio > 0.9);
  }
}

TEST_CASE("layers with the same operators are one kind, with and without loss scaling") {
  for (const Precision precision : {Precision::as_written, Precision::f16_mixed}) {
    CAPTURE(static_cast<int>(precision));
    const Graph graph = deep_mlp(8, precision).trace(kMicroBatches);
    const inter_op::LayerRanges ranges(graph);
    REQUIRE(ranges.layers() == 8);
    for (int layer = 2; layer < 6; ++layer)  // the loops of the last two reach the loss
      CHECK(ranges.class_of(layer, layer) == ranges.class_of(1, 1));
    CHECK(ranges.class_of(0, 0) != ranges.class_of(1, 1));
    CHECK(ranges.class_of(7, 7) != ranges.class_of(1, 1));
  }
}

TEST_CASE("what no division fits into the budget is ruled out without a search") {
  const Case c(deep_mlp(4, Precision::as_written).trace(kMicroBatches), slow_links(1));
  double state = 0;  // all of it is needed, by some device
  for (const Input& input : c.graph.inputs)
    if (input.kind == InputKind::state || input.kind == InputKind::accumulator)
      state += static_cast<double>(c.graph.type(input.value).bytes());
  const auto budget = static_cast<std::int64_t>(state / c.cluster.num_devices() * 0.99);
  RangeCosts costs(c.graph, c.cluster, {budget, c.submeshes, {}}, c.planning);
  for (int part = 0; part < static_cast<int>(c.submeshes.size()); ++part)
    CHECK(costs.seconds({costs.ranges().class_of(0, 3), part, 1}) == kInfinity);
  StageSearch search(c.question(budget), c.planning);
  CHECK_FALSE(search.improve());
  CHECK(search.progress().searches == 0);
  CHECK_THROWS_AS(search.finish(), intra_op::OverBudget);
}

TEST_CASE("stages that exceed the budget are replaced by stages that keep it") {
  Case c(graph_of("residual-mlp", 2), slow_links(2));
  c.options.limits.relative_gap = 0.005;
  c.options.limits.seconds = 5;
  const inter_op::LayerRanges ranges(c.graph);
  /// The largest of the stages' bytes, planned with the limit.
  const auto bytes_of = [&](const inter_op::StagePartition& partition, std::int64_t limit) {
    std::int64_t most = 0;
    for (std::size_t s = 0; s < partition.stages.size(); ++s) {
      const inter_op::Stage& stage = partition.stages[s];
      std::vector<int> devices(stage.submesh.num_devices());
      std::iota(devices.begin(), devices.end(), 0);
      const Graph graph = ranges.graph_of({stage.first_layer, stage.last_layer}).graph;
      const int in_flight = one_f_one_b(static_cast<int>(partition.stages.size() - s) - 1);
      const ShardingPlan plan = plan_stage(graph, logical_meshes(c.cluster, stage.submesh, devices),
                                           {limit, in_flight}, c.planning);
      most = std::max(most, intra_op::counted_bytes(plan, graph).with(in_flight));
    }
    return most;
  };
  const FoundStages free = found_stages(c.question(), c.planning);
  const std::int64_t budget = bytes_of(free.partition, kMuch) * 9 / 10;
  const FoundStages found = found_stages(c.question(budget), c.planning);
  CHECK(bytes_of(found.partition, budget) <= budget);
  CHECK(found.seconds > free.seconds);
  CHECK(found.lower_bound <= found.seconds);
  CHECK_THROWS_WITH_AS(
      found_stages(c.question(1000), c.planning),
      "AutoStages: no stages of 2 layers fit into 1000 bytes per device; give more "
      "layers or devices, or raise the memory budget",
      intra_op::OverBudget);
}

}  // namespace stage_search_test
