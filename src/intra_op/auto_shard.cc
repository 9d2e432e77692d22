// src/intra_op/auto_shard.cc — from a graph to its cheapest sharding plan
#include "alpa/intra_op/auto_shard.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>

#include "alpa/base/error.h"
#include "alpa/ilp/solve.h"
#include "assemble_plan.h"
#include "memory_error.h"
#include "peak_memory.h"

namespace alpa {
namespace {

using Clock = std::chrono::steady_clock;

/// Under a budget a plan this close to the proven bound is good enough: the last percent can take minutes.
constexpr double kBudgetGap = 0.01;
constexpr int kBudgetAttempts = 6;
/// Of the time limit, for each attempt under a budget.
constexpr double kBudgetTime = 0.02;

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

/// The plan's own price must be the solver's, up to the rounding of every cost to whole units. Where time
/// ran out, the solver may have paid for a copy that nothing reads; the plan then costs less.
void check_objective(const PlanCost& cost, const ilp::Solution& solution, const Instance& instance) {
  const double solved = static_cast<double>(solution.cost) / instance.units_per_second;
  const double terms = static_cast<double>(instance.problem.nodes.size() + instance.problem.edges.size());
  const double tolerance = terms / instance.units_per_second + 1e-9 * std::abs(solved);
  const double difference = solved - cost.objective_seconds;
  invariant(difference >= -tolerance && (difference <= tolerance || !solution.optimal),
            "the plan costs {} s but the solver's objective is {} s (tolerance {} s)",
            cost.objective_seconds, solved, tolerance);
}

struct Planning {
  const Graph& graph;
  const DeviceMesh& mesh;
  const CostModel& model;
  const AutoShardOptions& options;
  const SearchSpace& space;
  Clock::time_point start;

  double seconds_left() const { return std::max(0.1, options.time_limit_seconds - seconds_since(start)); }
};

/// The best plan under a limit, if there is one. Throws ilp::Infeasible.
ShardingPlan solve(const Planning& p, const std::optional<MemoryLimit>& memory) {
  const Instance instance = build_instance(p.graph, p.space, p.mesh, memory);
  ilp::Options solver;
  solver.time_limit_seconds =
      memory ? std::min(p.options.time_limit_seconds * kBudgetTime, p.seconds_left()) : p.seconds_left();
  solver.relative_gap = memory ? kBudgetGap : 0;
  solver.elimination_cells = 1 << 24;  // training graphs are narrow: what fits is solved without branching
  solver.reductions.merge = false;     // merging would undo what nodes for specs are there for
  const ilp::Solution solution = ilp::solve(instance.problem, solver);
  ShardingPlan plan = assemble_plan(p.graph, p.space, instance, solution.choice, p.mesh, p.model.reshard);
  plan.method = p.options.method;
  plan.cost = evaluate(plan, p.graph, p.model);
  check_objective(plan.cost, solution, instance);
  plan.cost.lower_bound_seconds = plan.cost.objective_seconds;
  if (!solution.optimal) {
    const double bound = static_cast<double>(solution.lower_bound) / instance.units_per_second;
    plan.cost.lower_bound_seconds = std::min(plan.cost.objective_seconds, bound);
  }
  plan.statistics = statistics_of(solution);
  return plan;
}

/// Tries the small model of memory, which leaves out copies that only one node reads, under a limit lowered
/// by what the last plan exceeded the budget by; then the full model.
ShardingPlan solve_within(const Planning& p, std::int64_t budget) {
  std::int64_t limit = budget;
  std::optional<double> bound;
  for (int attempt = 0; attempt < kBudgetAttempts && limit > 0; ++attempt) {
    try {
      ShardingPlan plan = solve(p, MemoryLimit{limit, false});
      if (!bound) bound = plan.cost.lower_bound_seconds;
      const std::int64_t peak = peak_memory(plan, p.graph).bytes;
      plan.cost.lower_bound_seconds = std::min(*bound, plan.cost.objective_seconds);
      if (peak <= budget) return plan;
      limit -= peak - budget;
    } catch (const ilp::Infeasible&) {
      if (attempt == 0) throw;
      break;
    }
  }
  return solve(p, MemoryLimit{budget, true});
}

OverBudget over_budget(const Planning& p, const ilp::Infeasible& infeasible) {
  OverBudget error(memory_error(infeasible, p.graph, p.space, p.mesh, p.options));
  error.missing_bytes = infeasible.missing_usage;
  return error;
}

/// Nothing if even without a budget no plan is cheaper than `worth` seconds.
std::optional<ShardingPlan> solve(const Planning& p, double worth) {
  const std::optional<std::int64_t>& budget = p.options.memory_budget_bytes;
  try {
    ShardingPlan plan = solve(p, std::nullopt);
    if (plan.cost.objective_seconds >= worth) return std::nullopt;
    return budget && peak_memory(plan, p.graph).bytes > *budget ? solve_within(p, *budget) : plan;
  } catch (const ilp::Infeasible& infeasible) {
    if (budget && infeasible.missing_usage > 0) throw over_budget(p, infeasible);
    fail(
        "method {}: no plan on a {} mesh keeps to the options; allow all_gather and all_to_all, or forbid "
        "less",
        p.options.method, shape_text(p.mesh));
  } catch (const ilp::TimedOut&) {
    if (!budget) throw;
    throw OverBudget(
        fmt::format("method {}: no plan on a {} mesh was found that fits into {} bytes per device; allow "
                    "more seconds or "
                    "more bytes",
                    p.options.method, shape_text(p.mesh), *budget));
  }
}

std::optional<ShardingPlan> plan_for(const Graph& graph, const DeviceMesh& mesh, const CostModel& model,
                                     const AutoShardOptions& options, double worth) {
  const auto start = Clock::now();
  CostModel priced = model;
  priced.reshard.collectives.allow_all_gather &= options.allow_all_gather;
  priced.reshard.collectives.allow_all_to_all &= options.allow_all_to_all;
  const SearchSpace space = search_space(graph, mesh, priced, options);
  std::optional<ShardingPlan> plan = solve(Planning{graph, mesh, priced, options, space, start}, worth);
  if (plan) plan->statistics.total_seconds = seconds_since(start);
  return plan;
}

/// How far an error is from a plan.
std::int64_t missing_bytes(const Error& error) {
  const auto* over = dynamic_cast<const OverBudget*>(&error);
  return over && over->missing_bytes > 0 ? over->missing_bytes : std::numeric_limits<std::int64_t>::max();
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
  return *plan_for(graph, mesh, model, options, std::numeric_limits<double>::infinity());
}

ShardingPlan auto_shard(const Graph& graph, const std::vector<DeviceMesh>& meshes, const CostModel& model,
                        const AutoShardOptions& options) {
  require(!meshes.empty(), "auto_shard: no mesh to plan for");
  std::optional<ShardingPlan> best;
  std::exception_ptr failure;
  std::int64_t least_missing = 0;
  for (const DeviceMesh& mesh : meshes) {
    try {
      const double worth = best ? best->cost.objective_seconds : std::numeric_limits<double>::infinity();
      std::optional<ShardingPlan> plan = plan_for(graph, mesh, model, options, worth);
      if (plan && plan->cost.objective_seconds < worth) best = std::move(plan);
    } catch (const Error& error) {  // what one mesh cannot keep, another may
      if (failure && missing_bytes(error) >= least_missing) continue;
      failure = std::current_exception();
      least_missing = missing_bytes(error);
    }
  }
  if (!best) std::rethrow_exception(failure);
  return *best;
}

}  // namespace alpa
