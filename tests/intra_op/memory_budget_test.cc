// Memory budgets, checked by a liveness count of the test's own.
#include <doctest/doctest.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "intra_op/graphs.h"
#include "intra_op/plans.h"

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Bytes on the fullest device, point by point: at node n live are state and accumulators; every value from
/// its node to the last node that reads it or a copy is made of it; every copy from its first reader to its
/// last. New state replaces the old in place, and so does an elementwise result the operand of its type
/// that is read for the last time.
class Liveness {
 public:
  Liveness(const ShardingPlan& plan, const Graph& graph)
      : plan_(plan), graph_(graph), end_(static_cast<int>(graph.nodes.size())) {
    last_read_.assign(graph.values.size(), -1);
    for (int n = 0; n < end_; ++n) {
      for (int j = 0; j < static_cast<int>(graph.nodes[n].operands.size()); ++j)
        read(graph.nodes[n].operands[j], n, n);
    }
    for (int u = 0; u < static_cast<int>(graph.updates.size()); ++u)
      read(graph.updates[u].value, use_of_update(graph, u), graph.values[graph.updates[u].value].producer);
    for (int m = 0; m < static_cast<int>(graph.metrics.size()); ++m)
      read(graph.metrics[m].value, use_of_metric(graph, m), end_);
  }

  std::int64_t peak() const {
    std::int64_t most = 0;
    for (int point = 0; point <= end_; ++point) most = std::max(most, at(point));
    return most;
  }

 private:
  /// A copy's first reader stands for all of them: the value itself is not read again.
  void read(int value, int use, int point) {
    for (const PlannedReshard& r : plan_.reshards) {
      if (r.value == value && r.uses.front() != use && std::count(r.uses.begin(), r.uses.end(), use))
        return;
    }
    last_read_[value] = std::max(last_read_[value], point);
  }

  std::int64_t at(int point) const {
    std::int64_t bytes = 0;
    for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v) {
      if (lives(v, point)) bytes += shard_bytes(graph_.type(v), plan_.specs[v], plan_.mesh);
    }
    for (const PlannedReshard& r : plan_.reshards) {
      const auto [first, last] = points(r);
      if (first <= point && point <= last)
        bytes += shard_bytes(graph_.type(r.value), r.path.steps.back().to, plan_.mesh);
    }
    return bytes;
  }

  bool lives(int v, int point) const {
    const Input* input = find_input(graph_, v);
    if (input && (input->kind == InputKind::state || input->kind == InputKind::accumulator)) return true;
    if (input) return point <= last_read_[v];
    const int made = graph_.values[v].producer;
    return point <= std::max(made, last_read_[v]) && (point > made || (point == made && !in_place(v)));
  }

  bool in_place(int v) const {
    const int n = graph_.values[v].producer;
    const Node& node = graph_.nodes[n];
    if (!node.op->in_place) return false;
    bool only_updates = true;
    for (const Node& other : graph_.nodes)
      only_updates &= !std::count(other.operands.begin(), other.operands.end(), v);
    for (const Metric& metric : graph_.metrics) only_updates &= metric.value != v;
    return only_updates || std::any_of(node.operands.begin(), node.operands.end(), [&](int x) {
             return graph_.type(x) == graph_.type(v) && !find_input(graph_, x) && last_read_[x] == n;
           });
  }

  std::pair<int, int> points(const PlannedReshard& r) const {
    int first = end_, last = 0;
    for (int use : r.uses) {
      int point = use < end_ ? use : end_;
      const int update = use - end_;
      if (update >= 0 && update < static_cast<int>(graph_.updates.size()))
        point = graph_.values[graph_.updates[update].value].producer;
      first = std::min(first, point);
      last = std::max(last, point);
    }
    return {plan_.specs[r.value].is_partial() ? reduced(r) : first, last};
  }

  /// After the producer; in region apply not before its first node, if it runs once for several
  /// micro-batches.
  int reduced(const PlannedReshard& r) const {
    const int made = graph_.values[r.value].producer + 1;
    const bool apply = r.uses.front() >= end_ || graph_.nodes[r.uses.front()].region == Region::apply;
    int start = 0;
    while (start < end_ && graph_.nodes[start].region != Region::apply) ++start;
    return apply && graph_.num_micro_batches > 1 ? std::max(made, start) : made;
  }

  const ShardingPlan& plan_;
  const Graph& graph_;
  int end_;
  std::vector<int> last_read_;
};

std::int64_t peak(const ShardingPlan& plan, const Graph& graph) { return Liveness(plan, graph).peak(); }

CostModel some_model() {
  CostModel model;
  model.device = {.memory_bytes = 1 << 30,
                  .flops_per_second = {{f32, 1e12}},
                  .memory_bytes_per_second = 1e11,
                  .launch_seconds = 1e-6};
  model.reshard.memory_bytes_per_second = 1e11;
  model.reshard.launch_seconds = 1e-6;
  return model;
}

}  // namespace

TEST_CASE("A budget below the unconstrained optimum's peak gives a plan that keeps it and costs more") {
  const CostModel model = some_model();
  int kept = 0;
  for (const auto& [sizes, micro_batches] : {std::pair(std::vector<int>{4}, 1), {{2, 2}, 1}, {{4}, 2}}) {
    const Graph graph =
        mlp_graph({.layers = 2, .batch = 256, .width = 256, .num_micro_batches = micro_batches});
    const DeviceMesh mesh = mesh_of(sizes, {1e-6, 1e-6}, {1e-9, 1e-9});
    const ShardingPlan free = auto_shard(graph, mesh, model, {});
    const std::int64_t all = peak(free, graph);
    double seconds = free.cost.objective_seconds;
    AutoShardOptions options;
    options.time_limit_seconds = 20;
    options.memory_budget_bytes = all;
    CHECK(auto_shard(graph, mesh, model, options).cost.objective_seconds == seconds);
    for (double share : {0.9, 0.7}) {
      options.memory_budget_bytes = static_cast<std::int64_t>(share * static_cast<double>(all));
      CAPTURE(share);
      const ShardingPlan plan = auto_shard(graph, mesh, model, options);
      verify(plan, graph);
      CHECK(peak(plan, graph) <= *options.memory_budget_bytes);
      CHECK(plan.cost.objective_seconds >= seconds * (1 - plan.cost.gap()) - 1e-12);
      CHECK(plan.cost.lower_bound_seconds <= plan.cost.objective_seconds);
      MESSAGE(plan.statistics.total_seconds, " s, gap ", plan.cost.gap());
      ++kept;
    }
  }
  CHECK(kept == 6);
}

TEST_CASE(
    "ZeRO-3 under a budget gathers its weights twice instead of keeping them from the forward to the "
    "backward pass") {
  // Wide layers, a small batch: the gathered weights are what fills the memory.
  const Graph graph = mlp_graph({.layers = 3, .batch = 16, .width = 512, .bias = false});
  const DeviceMesh mesh = mesh_of({8}, {1e-6}, {1e-9});
  AutoShardOptions options = zero3_options();
  options.time_limit_seconds = 20;
  const ShardingPlan free = auto_shard(graph, mesh, some_model(), options);
  const int gathers = count_steps(free).at("all_gather");
  options.memory_budget_bytes = peak(free, graph) * 3 / 4;
  const ShardingPlan plan = auto_shard(graph, mesh, some_model(), options);
  verify(plan, graph);
  CHECK(peak(plan, graph) <= *options.memory_budget_bytes);
  CHECK(gathers == 3);
  CHECK(count_steps(plan).at("all_gather") > gathers);
}

TEST_CASE("A budget that cannot be kept is the user's mistake: by how much, where, and what would help") {
  const Graph graph = mlp_graph({.layers = 1, .batch = 8, .width = 4, .bias = false});
  AutoShardOptions options = data_parallel_options();
  options.memory_budget_bytes = 400;
  try {
    auto_shard(graph, mesh_of({2}), some_model(), options);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "");
  }
}
