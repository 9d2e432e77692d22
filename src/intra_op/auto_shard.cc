// src/intra_op/auto_shard.cc — from a graph to its cheapest sharding plan
#include "alpa/intra_op/auto_shard.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "alpa/base/error.h"
#include "alpa/ilp/solve.h"
#include "assemble_plan.h"
#include "instance.h"

namespace alpa {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

AutoShardOptions batch_only(std::string method) {
  AutoShardOptions options;
  options.method = std::move(method);
  options.split_batch_everywhere = true;
  return options;
}

PlannerStatistics statistics_of(const ilp::Solution& solution) {
  PlannerStatistics statistics;
  statistics.solve_seconds = solution.seconds;
  statistics.nodes = solution.statistics.nodes;
  statistics.strategies = static_cast<int>(solution.statistics.strategies);
  statistics.variables = static_cast<int>(solution.statistics.variables);
  statistics.constraints = static_cast<int>(solution.statistics.constraints);
  return statistics;
}

/// The plan's own price must be the solver's, up to the rounding of every cost to whole units.
void check_objective(const PlanCost& cost, const ilp::Solution& solution, const Instance& instance) {
  const double solved = static_cast<double>(solution.cost) / instance.units_per_second;
  const double terms = static_cast<double>(instance.problem.nodes.size() + instance.problem.edges.size());
  const double tolerance = terms / instance.units_per_second + 1e-9 * std::abs(solved);
  invariant(std::abs(cost.objective_seconds - solved) <= tolerance,
            "the plan costs {} s but the solver's objective is {} s (tolerance {} s)",
            cost.objective_seconds, solved, tolerance);
}

}  // namespace

AutoShardOptions data_parallel_options() {
  AutoShardOptions options = batch_only("data");
  options.replicate_parameters = options.replicate_optimizer_state = true;
  return options;
}

AutoShardOptions zero2_options() {
  AutoShardOptions options = batch_only("zero2");
  options.replicate_parameters = options.shard_optimizer_state = true;
  return options;
}

AutoShardOptions zero3_options() {
  AutoShardOptions options = batch_only("zero3");
  options.shard_parameters = options.shard_optimizer_state = true;
  return options;
}

ShardingPlan auto_shard(const Graph& graph, const DeviceMesh& mesh, const CostModel& model,
                        const AutoShardOptions& options) {
  const Clock::time_point start = Clock::now();
  CostModel priced = model;
  priced.reshard.collectives.allow_all_gather &= options.allow_all_gather;
  priced.reshard.collectives.allow_all_to_all &= options.allow_all_to_all;
  const SearchSpace space = search_space(graph, mesh, priced, options);
  const Instance instance = build_instance(graph, space);
  ilp::Options solver;
  solver.time_limit_seconds = options.time_limit_seconds;
  const ilp::Solution solution = ilp::solve(instance.problem, solver);
  const std::vector<int> choice(solution.choice.begin(),
                                solution.choice.begin() + static_cast<std::ptrdiff_t>(graph.nodes.size()));
  ShardingPlan plan = assemble_plan(graph, space, choice, mesh, priced.reshard);
  plan.method = options.method;
  plan.cost = evaluate(plan, graph, priced);
  check_objective(plan.cost, solution, instance);
  plan.cost.lower_bound_seconds =
      solution.optimal ? plan.cost.objective_seconds
                       : std::min(plan.cost.objective_seconds,
                                  static_cast<double>(solution.lower_bound) / instance.units_per_second);
  plan.statistics = statistics_of(solution);
  plan.statistics.total_seconds = seconds_since(start);
  return plan;
}

ShardingPlan auto_shard(const Graph& graph, const std::vector<DeviceMesh>& meshes, const CostModel& model,
                        const AutoShardOptions& options) {
  require(!meshes.empty(), "auto_shard: no mesh to plan for");
  std::optional<ShardingPlan> best;
  for (const DeviceMesh& mesh : meshes) {
    ShardingPlan plan = auto_shard(graph, mesh, model, options);
    if (!best || plan.cost.objective_seconds < best->cost.objective_seconds) best = std::move(plan);
  }
  return *best;
}

}  // namespace alpa
