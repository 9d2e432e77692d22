// Memory budgets. The exact peak is that of the device programs: what an executor allocates.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "search/graphs.h"
#include "search/plans.h"

namespace memory_budget_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Mlp {
  int layers;
  std::int64_t batch, width, hidden;
  int micro_batches = 1;
};

TrainingStep step_of(const Mlp& mlp) {
  const TensorType data{f32, {mlp.batch, mlp.width}};
  nn::Sequential model;
  for (int i = 0; i < mlp.layers; ++i) {
    const bool last = i + 1 == mlp.layers;
    model.add(nn::Dense(last || i % 2 == 1 ? mlp.width : mlp.hidden));
    if (!last) model.add(nn::ReLU());
  }
  return training_step(
      {{"x", data}, {"y", data}},
      [model](const Batch& b) { return nn::mean_squared_error(model(b["x"]), b["y"]); },
      optim::Adam{.learning_rate = 1e-3});
}

template <class Method>
CompiledStep planned(const Mlp& mlp, Method method, const std::vector<int>& mesh) {
  int devices = 1;
  for (int size : mesh) devices *= size;
  method.mesh_shape = mesh;
  method.num_micro_batches = mlp.micro_batches;
  return plan_only(step_of(mlp), method, Cluster::local(devices));
}

/// The same within a share of the bytes of `free`.
template <class Method>
CompiledStep within(const CompiledStep& free, double share, const Mlp& mlp, Method method,
                    const std::vector<int>& mesh) {
  method.memory_budget_bytes =
      static_cast<std::int64_t>(share * static_cast<double>(free.memory_bytes));
  const CompiledStep plan = planned(mlp, method, mesh);
  CAPTURE(share);
  CHECK(plan.memory_bytes <= *method.memory_budget_bytes);
  CHECK(plan.plan.cost.objective_seconds >= free.plan.cost.lower_bound_seconds);
  CHECK(plan.plan.cost.lower_bound_seconds <= plan.plan.cost.objective_seconds);
  return plan;
}

/// How often each weight matrix is gathered, by name.
std::map<std::string, int> gathers(const CompiledStep& planned) {
  std::map<std::string, int> counts;
  for (const PlannedReshard& r : planned.plan.sharding().reshards) {
    const Input* input = find_input(planned.graph, r.value);
    if (input && input->kind == InputKind::state && planned.graph.type(r.value).rank() == 2)
      counts[input->name] += r.path.steps.front().kind == CollectiveKind::all_gather;
  }
  return counts;
}

}  // namespace

TEST_CASE("a budget below the best plan's peak gives a plan that keeps it to the byte") {
  struct Case {
    Mlp mlp;
    std::vector<int> mesh;
    std::vector<double> shares;
  };
  for (const Case& c :
       {Case{{4, 256, 64, 256}, {4}, {0.95, 0.85}}, Case{{10, 256, 128, 128}, {8}, {0.95, 0.6}},
        Case{{4, 32, 64, 64}, {2, 4}, {0.85}}, Case{{3, 2048, 64, 256, 4}, {4}, {0.85}}}) {
    CAPTURE(c.mlp.layers);
    const CompiledStep free = planned(c.mlp, ShardParallel{}, c.mesh);
    // Half a minute of proof where the budget is tight is no part of this test.
    for (double share : c.shares)
      within(free, share, c.mlp, ShardParallel{.relative_gap = 0.1}, c.mesh);
  }
}

TEST_CASE("a budget that the best plan keeps changes nothing") {
  const Mlp mlp{2, 64, 32, 64};
  const CompiledStep free = planned(mlp, ShardParallel{}, {4});
  const CompiledStep same = within(free, 1, mlp, ShardParallel{}, {4});
  CHECK(to_json(same.plan.sharding(), same.graph) == to_json(free.plan.sharding(), free.graph));
}

TEST_CASE("ZeRO-3 gathers weights again for the backward pass when there is no room to keep them") {
  // Wide layers, a small batch: gathered weights are what fills the memory.
  const Mlp mlp{4, 32, 256, 256};
  const CompiledStep free = planned(mlp, Zero3Parallel{}, {8});
  for (const auto& [name, count] : gathers(free)) CHECK(count == 1);
  const CompiledStep tight = within(free, 0.8, mlp, Zero3Parallel{}, {8});
  const std::map<std::string, int> again = gathers(tight);
  CHECK(
      std::any_of(again.begin(), again.end(), [](const auto& entry) { return entry.second == 2; }));
}

TEST_CASE(
    "a budget that cannot be kept is the user's mistake: by how much, where, and what would help") {
  const Graph graph = mlp_graph({.layers = 1, .batch = 8, .width = 4, .bias = false});
  intra_op::AutoShardOptions options = intra_op::data_parallel_options();
  options.memory_budget_bytes = 300;
  try {
    intra_op::auto_shard(graph, priced_mesh({2}), cost::CostModel::of(Cluster::local(2)), options);
    FAIL("no error");
  } catch (const intra_op::OverBudget& error) {
    // At the loss, three states of 64 bytes, x, the difference and its square of
    // 64 each, and the sum: 388.
    CHECK(error.missing_bytes == 88);
    CHECK(std::string(error.what()) ==
          "method data: no plan on a 2 mesh fits into 300 bytes per device: "
          "at least 88 bytes are missing at reduce_sum \"reduce_sum\", where 7 tensors are live; "
          "the largest are \"x\" f32[8, 4] (64 bytes per device at least), "
          "\"dense0.kernel\" f32[4, 4] (64 bytes per device at least), \"sub\" f32[8, "
          "4] (64 bytes per device at least); the smallest plan found takes 388 bytes; "
          "use more devices, a smaller batch or more micro-batches, "
          "or the method \"zero3\" or \"shard\"");
  }
  // One device has nothing that another method could split.
  try {
    intra_op::auto_shard(graph, priced_mesh({1}), cost::CostModel::of(Cluster::local(1)), options);
    FAIL("no error");
  } catch (const intra_op::OverBudget& error) {
    CHECK(std::string(error.what())
              .ends_with(" bytes; use more devices, a smaller batch or more micro-batches"));
  }
}

}  // namespace memory_budget_test
