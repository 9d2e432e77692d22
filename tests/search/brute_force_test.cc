// The planner against enumeration of all strategy combinations: every node any strategy of its
// rule, nothing pruned, resharding paid once per value and target. A loop pays for what it reads
// and writes as a whole, and is cut wherever two members lay a value differently.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/plan/facts/fusion.h"
#include "src/plan/facts/strategy.h"
#include "src/search/sharding/auto_shard.h"
#include "src/search/space/search_space.h"
#include "support/random.h"

namespace brute_force_test {

using namespace alpa;
using alpa::testing::below;
using alpa::testing::Random;

namespace {

/// A value as the enumeration sees it: who makes it, who wants it, and seconds between specs.
struct Wanting {
  int node, group;         // uses of one group share copies; group 1 runs once per step
  std::vector<int> specs;  // per strategy of `node`
  bool inside = false;     // the node is in the producer's loop
};
struct Flow {
  // by group of uses; `last`: once nodes 0..last are decided, its price is known
  int producers[2], last;
  std::vector<int> specs[2];  // per strategy of the producer
  std::vector<Wanting> wanting;
  std::vector<std::vector<double>> seconds, cuts;
};

class Enumeration {
 public:
  /// `pins`: the only spec that these nodes' first results may have.
  Enumeration(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
              const std::vector<intra_op::PinnedNode>& pins = {})
      : graph_(graph), mesh_(mesh), shares_(intra_op::loop_shares(graph)), pins_(pins) {
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) add_node(n, model);
    for (int v = 0; v < static_cast<int>(graph.values.size()); ++v) add_flow(v, model);
  }

  double combinations() const {
    double product = 1;
    for (const auto& s : strategies_) product *= static_cast<double>(s.size());
    return product;
  }

  double cheapest() {
    choice_.assign(strategies_.size(), 0);
    decide(0, 0);
    return best_;
  }

 private:
  /// Bytes that the node's part of a loop takes from memory and leaves there.
  double moved(int n, const Strategy& s) const {
    const Node& node = graph_.nodes[n];
    double bytes = 0;
    for (std::size_t j = 0; j < node.operands.size(); ++j) {
      const TensorType& type = graph_.type(node.operands[j]);
      const ShardingSpec spec = intra_op::operand_spec(rules_[n], s, mesh_, static_cast<int>(j));
      const intra_op::LoopRead& read = shares_[n].reads[j];
      if (read.kind == intra_op::LoopRead::Kind::memory)
        bytes += static_cast<double>(shard_bytes(type, spec, mesh_));
      if (read.kind != intra_op::LoopRead::Kind::through) continue;
      double behind = static_cast<double>(size_of(type.dtype));
      const Shape local =
          local_shape(type.shape, spec, mesh_, std::vector<int>(mesh_.num_axes(), 0));
      for (int d : read.dims) behind *= static_cast<double>(local[d]);
      bytes += behind;
    }
    const int result = node.results[0];
    if (shares_[n].writes[0])
      bytes += static_cast<double>(
          shard_bytes(graph_.type(result), intra_op::result_spec(rules_[n], s, mesh_), mesh_));
    return bytes;
  }

  double cut(const TensorType& type, const ShardingSpec& a, const ShardingSpec& b,
             const cost::CostModel& model) const {
    if (a == b) return 0;
    const double rate = model.device.memory_bytes_per_second;
    const double bytes =
        static_cast<double>(shard_bytes(type, a, mesh_) + shard_bytes(type, b, mesh_));
    return model.device.launch_seconds + (rate > 0 ? bytes / rate : 0);
  }

  bool is_inside(int n, int j) const {
    return !shares_[n].reads.empty() &&
           shares_[n].reads[j].kind == intra_op::LoopRead::Kind::inside;
  }

  double seconds_in_loop(int n, const Strategy& s, const std::vector<TensorType>& results,
                         const cost::CostModel& model) const {
    const std::vector<TensorType> operands = operand_types(graph_, graph_.nodes[n]);
    double seconds = operator_seconds(rules_[n], intra_op::factor_of_axis(s, mesh_), operands,
                                      results, mesh_, model, moved(n, s));
    if (!shares_[n].launches) seconds -= model.device.launch_seconds;
    for (int j = 0; j < static_cast<int>(operands.size()); ++j)
      if (is_inside(n, j))
        seconds += cut(operands[j], intra_op::result_spec(rules_[n], s, mesh_),
                       intra_op::operand_spec(rules_[n], s, mesh_, j), model);
    return seconds;
  }

  void add_node(int n, const cost::CostModel& model) {
    const Node& node = graph_.nodes[n];
    rules_.push_back(rule_of(graph_, node));
    strategies_.push_back(intra_op::all_strategies(rules_.back(), mesh_));
    for (const intra_op::PinnedNode& pin : pins_)
      if (pin.node == n)
        std::erase_if(strategies_.back(), [&](const Strategy& s) {
          return intra_op::result_spec(rules_.back(), s, mesh_) != pin.spec;
        });
    std::vector<TensorType> results;
    for (int value : node.results) results.push_back(graph_.type(value));
    const Input* input = find_input(graph_, node.results[0]);
    const bool load = input && input->kind == InputKind::batch;
    const bool free = shares_[n].vanishes || (input && !load) || node.op == &ops::constant ||
                      node.op == &ops::reshape;
    seconds_.emplace_back();
    for (const Strategy& s : strategies_.back()) {
      double once = operator_seconds(rules_.back(), intra_op::factor_of_axis(s, mesh_),
                                     operand_types(graph_, node), results, mesh_, model);
      if (!shares_[n].reads.empty()) once = seconds_in_loop(n, s, results, model);
      if (load && model.device.memory_bytes_per_second > 0) {  // read and written
        const ShardingSpec spec = intra_op::result_spec(rules_.back(), s, mesh_, 0);
        once = model.device.launch_seconds +
               2 * static_cast<double>(shard_bytes(results[0], spec, mesh_)) /
                   model.device.memory_bytes_per_second;
      }
      seconds_.back().push_back(
          free ? 0 : once * (node.region == Region::apply ? 1 : graph_.num_micro_batches));
    }
  }

  void add_flow(int v, const cost::CostModel& model) {
    const ValueInfo& info = graph_.values[v];
    std::vector<ShardingSpec> specs;
    const auto number = [&](const ShardingSpec& spec) {
      const auto at = std::find(specs.begin(), specs.end(), spec);
      if (at != specs.end()) return static_cast<int>(at - specs.begin());
      specs.push_back(spec);
      return static_cast<int>(specs.size()) - 1;
    };
    Flow flow{{info.producer, info.producer}, info.producer, {}, {}, {}, {}};
    // Region apply reads the sum of all micro-batches where the accumulator has it.
    for (const Update& update : graph_.updates) {
      if (update.value == v && find_input(graph_, update.input)->kind == InputKind::accumulator)
        flow.producers[group(true)] = graph_.values[update.input].producer;
    }
    if (group(true) == 0) flow.producers[0] = info.producer;
    for (int g : {0, 1}) {
      const int producer = flow.producers[g];
      for (const Strategy& s : strategies_[producer])
        flow.specs[g].push_back(number(intra_op::result_spec(
            rules_[producer], s, mesh_, producer == info.producer ? info.index : 0)));
      flow.last = std::max(flow.last, producer);
    }
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const Node& node = graph_.nodes[n];
      for (int j = 0; j < static_cast<int>(node.operands.size()); ++j) {
        if (node.operands[j] != v) continue;
        flow.wanting.push_back({n, group(node.region == Region::apply), {}, is_inside(n, j)});
        for (const Strategy& s : strategies_[n])
          flow.wanting.back().specs.push_back(
              number(intra_op::operand_spec(rules_[n], s, mesh_, j)));
      }
    }
    for (const Update& update : graph_.updates) {
      if (update.value != v) continue;
      const int input = graph_.values[update.input].producer;
      flow.wanting.push_back(
          {input, group(find_input(graph_, update.input)->kind == InputKind::state), {}});
      for (const Strategy& s : strategies_[input])
        flow.wanting.back().specs.push_back(number(intra_op::result_spec(rules_[input], s, mesh_)));
    }
    for (const Metric& metric : graph_.metrics) {
      if (metric.value == v)
        flow.wanting.push_back({info.producer, group(true),
                                std::vector<int>(strategies_[info.producer].size(), number({}))});
    }
    for (const Wanting& w : flow.wanting) flow.last = std::max(flow.last, w.node);
    const std::vector<double> table =
        cost::ReshardPrices(mesh_, model.reshard).seconds(info.type, specs, specs);
    for (const ShardingSpec& have : specs) {
      flow.cuts.emplace_back();
      for (const ShardingSpec& want : specs)
        flow.cuts.back().push_back(cut(info.type, have, want, model));
    }
    for (std::size_t i = 0; i < specs.size(); ++i)
      flow.seconds.emplace_back(
          table.begin() + static_cast<std::ptrdiff_t>(i * specs.size()),
          table.begin() + static_cast<std::ptrdiff_t>((i + 1) * specs.size()));
    flows_.push_back(std::move(flow));
  }

  int group(bool apply) const { return apply && graph_.num_micro_batches > 1 ? 1 : 0; }

  double price(const Flow& flow) const {
    std::vector<std::pair<int, int>> paid;
    double seconds = 0;
    for (const Wanting& w : flow.wanting) {
      const std::pair<int, int> target(w.group, w.specs[choice_[w.node]]);
      const int from = flow.specs[w.group][choice_[flow.producers[w.group]]];
      const int runs = w.group == 1 ? 1 : graph_.num_micro_batches;
      if (w.inside) seconds += flow.cuts[from][target.second] * runs;
      if (target.second == from || std::find(paid.begin(), paid.end(), target) != paid.end())
        continue;
      paid.push_back(target);
      seconds += flow.seconds[from][target.second] * runs;
    }
    return seconds;
  }

  void decide(int n, double so_far) {
    if (so_far >= best_) return;
    if (n == static_cast<int>(strategies_.size())) {
      best_ = so_far;
      return;
    }
    for (int s = 0; s < static_cast<int>(strategies_[n].size()); ++s) {
      choice_[n] = s;
      double seconds = so_far + seconds_[n][s];
      for (const Flow& flow : flows_) {
        if (flow.last == n) seconds += price(flow);
      }
      decide(n + 1, seconds);
    }
  }

  const Graph& graph_;
  const DeviceMesh& mesh_;
  std::vector<intra_op::LoopShare> shares_;
  std::vector<intra_op::PinnedNode> pins_;
  std::vector<Rule> rules_;
  std::vector<std::vector<Strategy>> strategies_;
  std::vector<std::vector<double>> seconds_;
  std::vector<Flow> flows_;
  std::vector<int> choice_;
  double best_ = std::numeric_limits<double>::infinity();
};

Value random_operation(Random& random, const Values& values) {
  const Value x = values[below(random, static_cast<int>(values.size()))],
              y = values[below(random, static_cast<int>(values.size()))];
  switch (below(random, 9)) {
    case 0: return x.shape() == y.shape() ? x + y : relu(x);
    case 1: return x.shape() == y.shape() ? x * y : square(x);
    case 2:
      return x.rank() == 2 && y.rank() == 2 && x.shape()[1] == y.shape()[0]
                 ? einsum("ik,kj->ij", x, y)
                 : x * 2.0;
    case 3:
      return x.rank() == 2 && y.rank() == 2 && x.shape()[0] == y.shape()[0]
                 ? einsum("ki,kj->ij", x, y)
                 : square(x);
    case 4: return x.rank() > 0 ? sum(x, {below(random, x.rank())}) : x * x;
    case 5: return x.rank() == 2 ? transpose(x) : x - y;
    case 6: return x.rank() == 2 ? reshape(x, {x.shape()[0] * x.shape()[1]}) : relu(x);
    case 7:
      return x.rank() == 2 && y.rank() == 1 && x.shape()[1] == y.shape()[0] ? x + y : square(x) - x;
    default: return x.rank() == 2 ? max(x, {1}) : relu(x);
  }
}

/// One or two inputs, operators on them, and whatever nobody reads becomes a metric, new state or
/// an accumulator's increment.
Graph random_graph(Random& random, int operations) {
  const int micro_batches = below(random, 2) == 0 ? 2 : 1;
  Recorder g(micro_batches);
  const auto extent = [&] { return std::vector<std::int64_t>{2, 3, 4, 6, 8}[below(random, 5)]; };
  Values values = {g.input(InputKind::batch, "a", {f32, {extent(), extent()}})};
  if (below(random, 2))
    values.push_back(g.input(InputKind::state, "b", {f32, {values[0].shape()[1], extent()}}));
  for (int i = 0; i < operations; ++i) {
    try {
      values.push_back(random_operation(random, values));
    } catch (const Error&) {  // operands that do not fit: fewer operators
    }
  }
  std::vector<bool> read(1000, false);
  for (int n = 0; n < g.num_nodes(); ++n) {
    for (int value : g.node(n).operands) read[value] = true;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value v = values[i];
    if (read[v.id] || g.node(g.producer(v.id)).op == &ops::input) continue;
    read[v.id] = true;
    if (v.rank() == 0 && micro_batches == 1) {
      g.metric(fmt::format("m{}", i), v);
    } else if (micro_batches == 1) {
      g.update(g.input(InputKind::state, fmt::format("s{}", i), v.type()), v);
    } else {
      const Value sum = g.input(InputKind::accumulator, fmt::format("s{}", i), v.type());
      const Value added = sum + v;
      g.update(sum, added);
      g.set_region(Region::apply);
      g.update(g.input(InputKind::state, fmt::format("t{}", i), v.type()), relu(added));
      g.set_region(Region::forward);
    }
  }
  return g.finish();
}

double pick(Random& random, std::initializer_list<double> values) {
  return values.begin()[below(random, static_cast<int>(values.size()))];
}

DeviceMesh random_mesh(Random& random) {
  const std::vector<std::vector<int>> shapes = {{2}, {3}, {4}, {2, 2}, {2, 3}, {1, 4}};
  std::vector<MeshAxis> axes;
  for (int size : shapes[below(random, static_cast<int>(shapes.size()))])
    axes.push_back({std::string(1, static_cast<char>('x' + axes.size())), size,
                    pick(random, {0, 1, 5}), pick(random, {0.01, 0.1, 1})});
  return DeviceMesh(axes);
}

cost::CostModel random_model(Random& random) {
  cost::CostModel model;
  model.device.flops_per_second[f32] = pick(random, {0, 1, 20});
  model.device.memory_bytes_per_second = pick(random, {0, 5, 100});
  model.device.launch_seconds = pick(random, {0, 0.5});
  model.reshard.memory_bytes_per_second = model.device.memory_bytes_per_second;
  model.reshard.launch_seconds = model.device.launch_seconds;
  return model;
}

/// A random node, and one of the specs in which the planner can leave its result.
intra_op::PinnedNode random_pin(Random& random, const Graph& graph, const DeviceMesh& mesh,
                                const cost::CostModel& model) {
  intra_op::PlanningCache cache;
  const intra_op::SearchSpace space = search_space(graph, {}, cache.of(mesh, model));
  const int node = below(random, static_cast<int>(graph.nodes.size()));
  const intra_op::NodeStrategies& choices = space.of(node);
  const std::vector<int>& specs = choices.result_specs[0];
  const int spec = specs[below(random, static_cast<int>(specs.size()))];
  return {node, space.layouts.of(choices.result_types[0]).specs[spec]};
}

bool has_shared_value(const Graph& graph) {
  const auto readers = consumers(graph);
  return std::any_of(readers.begin(), readers.end(),
                     [](const std::vector<int>& r) { return r.size() > 1; });
}

}  // namespace

TEST_CASE("the plan of a small graph costs what the cheapest of all strategy combinations costs") {
  int compared = 0, shared = 0, two_axes = 0, repeated = 0, resharded = 0;
  for (std::uint64_t seed = 1; compared < 600; ++seed) {
    Random random(seed);
    const Graph graph = random_graph(random, 2 + below(random, 3));
    const DeviceMesh mesh = random_mesh(random);
    const cost::CostModel model = random_model(random);
    if (graph.nodes.size() < 3 || graph.nodes.size() > 7) continue;
    Enumeration enumeration(graph, mesh, model);
    if (enumeration.combinations() > 2e8) continue;
    CAPTURE(seed);
    CAPTURE(to_string(graph));
    const ShardingPlan plan = intra_op::auto_shard(graph, mesh, model, {});
    verify(plan, graph);
    const double expected = enumeration.cheapest();
    REQUIRE(plan.cost.objective_seconds == doctest::Approx(expected).epsilon(1e-9));
    REQUIRE(plan.cost.lower_bound_seconds == doctest::Approx(expected).epsilon(1e-9));
    REQUIRE(evaluate(plan, graph, model).objective_seconds == plan.cost.objective_seconds);
    ++compared;
    shared += has_shared_value(graph);
    two_axes += mesh.num_axes() == 2 && mesh.size(0) > 1;
    repeated += graph.num_micro_batches > 1;
    resharded += !plan.reshards.empty();
  }
  // The sample covers what it is meant to cover.
  CHECK(shared > 300);
  CHECK(two_axes > 120);
  CHECK(repeated > 40);
  CHECK(resharded > 200);
}

TEST_CASE("a plan with a pinned result costs what the cheapest combination with that spec costs") {
  int compared = 0, dearer = 0, partial = 0;
  for (std::uint64_t seed = 1; compared < 400; ++seed) {
    Random random(seed);
    const Graph graph = random_graph(random, 2 + below(random, 3));
    const DeviceMesh mesh = random_mesh(random);
    const cost::CostModel model = random_model(random);
    if (graph.nodes.size() < 3 || graph.nodes.size() > 7) continue;
    const intra_op::PinnedNode pin = random_pin(random, graph, mesh, model);
    Enumeration enumeration(graph, mesh, model, {pin});
    if (enumeration.combinations() > 2e8) continue;
    CAPTURE(seed);
    CAPTURE(to_string(graph));
    CAPTURE(pin.node);
    CAPTURE(to_string(pin.spec));
    intra_op::AutoShardOptions options;
    options.allowed.pins = {pin};
    const ShardingPlan plan = intra_op::auto_shard(graph, mesh, model, options);
    verify(plan, graph);
    REQUIRE(plan.specs[graph.nodes[pin.node].results[0]] == pin.spec);
    REQUIRE(plan.cost.objective_seconds == doctest::Approx(enumeration.cheapest()).epsilon(1e-9));
    ++compared;
    const double free = intra_op::auto_shard(graph, mesh, model, {}).cost.objective_seconds;
    dearer += plan.cost.objective_seconds > free * 1.001;
    partial += pin.spec.is_partial();
  }
  CHECK(dearer > 100);
  CHECK(partial > 20);
}

TEST_CASE(
    "a loop is cut where one reduction in its middle costs less than one of each operand before "
    "it") {
  // Rows and columns are too few to be split, so that the products are left as partial sums; relu
  // is not linear in them, the addition is.
  Recorder g(1);
  const TensorType rows{f32, {2, 8}}, columns{f32, {8, 3}};
  const Value x = g.input(InputKind::batch, "x", rows), y = g.input(InputKind::batch, "y", rows),
              v = g.input(InputKind::state, "v", columns),
              w = g.input(InputKind::state, "w", columns);
  const Value sum = einsum("ik,kj->ij", x, v) + einsum("ik,kj->ij", y, w);
  g.update(g.input(InputKind::state, "s", sum.type()), relu(sum));
  const Graph graph = g.finish();
  const DeviceMesh mesh({{"x", 4, 5, 0.01}});
  cost::CostModel model;
  model.device.flops_per_second[f32] = 1;
  model.device.memory_bytes_per_second = 1000;
  model.reshard.memory_bytes_per_second = 1000;
  const std::vector<std::vector<int>> loops = intra_op::fusion_groups(graph);
  CHECK(loops.size() == 1);  // both the sum and relu
  CHECK(loops.front().size() == 2);
  // writing and reading the sum costs next to nothing, or much
  for (const double memory : {1000.0, 0.5}) {
    model.device.memory_bytes_per_second = memory;
    const ShardingPlan plan =
        intra_op::auto_shard(graph, mesh, model, intra_op::AutoShardOptions{});
    CHECK(plan.specs[sum.id].is_partial() == (memory > 1));
    CHECK(plan.cost.objective_seconds ==
          doctest::Approx(Enumeration(graph, mesh, model).cheapest()));
  }
}

}  // namespace brute_force_test
