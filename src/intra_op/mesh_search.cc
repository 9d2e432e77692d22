// src/intra_op/mesh_search.cc — one mesh: the program of the whole search space, and of parts of it
#include "mesh_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "alpa/base/error.h"
#include "assemble_plan.h"
#include "known_choice.h"
#include "memory_error.h"
#include "peak_memory.h"

namespace alpa {
namespace {

/// Under a budget a plan this close to the proven bound is good enough: the last percent can take minutes.
constexpr double kBudgetGap = 0.01;
constexpr int kBudgetAttempts = 6;
/// Far more than data parallelism takes, also on a busy machine.
constexpr double kDataParallelSeconds = 2;

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

double bound_of(const ilp::Solution& solution, const PlanCost& cost, const Instance& instance) {
  if (solution.optimal) return cost.objective_seconds;
  return std::min(cost.objective_seconds,
                  static_cast<double>(solution.lower_bound) / instance.units_per_second);
}

/// A bound: every node at its fastest, nothing resharded.
double least_compute_seconds(const Graph& graph, const SearchSpace& space) {
  double sum = 0;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const std::vector<double>& seconds = space.of(n).seconds;
    sum += runs_per_step(graph, graph.nodes[n]) * *std::min_element(seconds.begin(), seconds.end());
  }
  return sum;
}

}  // namespace

MeshSearch::MeshSearch(const Graph& graph, const DeviceMesh& mesh, const CostModel& model,
                       const AutoShardOptions& options, const PlanningTime& time, PlanningCache& cache)
    : graph_(graph),
      mesh_(mesh),
      model_(allowed_model(model, options)),
      options_(options),
      facts_(cache.facts().of(mesh_, model_)),
      time_(time),
      space_(search_space(graph, options, facts_)),
      bound_(least_compute_seconds(graph, space_)) {}

void MeshSearch::search(const Effort& effort) {
  try {
    if (auto plan = solve(space_, whole_instance(), {}, effort)) {
      bound_ = std::max(bound_, plan->cost.lower_bound_seconds);
      statistics_.nodes = plan->statistics.nodes;
      statistics_.strategies = plan->statistics.strategies;
      statistics_.variables = plan->statistics.variables;
      statistics_.constraints = plan->statistics.constraints;
      keep(*std::move(plan));
    }
  } catch (const ilp::Infeasible&) {
    bound_ = std::numeric_limits<double>::infinity();
    fail(
        "method {}: no plan on a {} mesh keeps to the options; allow all_gather and all_to_all, or forbid "
        "less",
        options_.method, shape_text(mesh_));
  }
}

void MeshSearch::search_data_parallel() {
  make_parts();
  const Effort each{time_.left(), 0, kDataParallelSeconds};
  for (Part& part : parts_)
    if (part.options.split_batch_everywhere) search_part(part, each);
}

void MeshSearch::search_batch_axes(const Effort& each) {
  make_parts();
  for (Part& part : parts_)
    if (!part.options.split_batch_everywhere) search_part(part, each);
}

void MeshSearch::search_part(Part& part, const Effort& effort) {
  const SearchSpace* space = space_of(part);
  if (space == nullptr) return;
  try {
    auto plan = solve(*space, build_instance(graph_, *space, mesh_), {}, effort);
    if (!plan) return;
    part.bound = plan->cost.lower_bound_seconds;
    if (choice_of(*plan, graph_, space_, whole_instance())) keep(*std::move(plan));
  } catch (const ilp::Infeasible&) {  // the whole may have plans all the same
  }
}

void MeshSearch::make_parts() {
  if (!parts_.empty() || options_.split_batch_everywhere || mesh_.num_devices() == 1) return;
  for (AutoShardOptions part : {data_parallel_options(), zero2_options(), zero3_options()}) {
    part.split_contractions = options_.split_contractions;
    parts_.push_back({std::move(part), nullptr, 0});
  }
  for (int axis = 0; axis < mesh_.num_axes() && !options_.batch_mesh_axis; ++axis) {
    if (mesh_.size(axis) == 1) continue;
    parts_.push_back({options_, nullptr, 0});
    parts_.back().options.batch_mesh_axis = axis;
  }
}

/// Null if the part cannot be followed: the batch is too small.
const SearchSpace* MeshSearch::space_of(Part& part) {
  if (part.space) return part.space.get();
  try {
    part.space = std::make_unique<SearchSpace>(search_space(graph_, part.options, facts_));
  } catch (const Error&) {
  }
  return part.space.get();
}

void MeshSearch::search_within(std::int64_t budget, const Effort& each) {
  const bool easy = parts_.empty();  // without a budget
  if (easy) search_whole_within(budget, each);
  if (easy && best(budget) != nullptr) return;
  make_parts();
  for (Part& part : parts_) search_part_within(part, budget, each);
  if (!easy) search_whole_within(budget, each);
}

void MeshSearch::search_part_within(Part& part, std::int64_t budget, const Effort& each) {
  const SearchSpace* space = space_of(part);
  const ShardingPlan* known = best(budget);
  if (space == nullptr || (known != nullptr && part.bound >= known->cost.objective_seconds)) return;
  try {
    search_model(*space, budget, each);
  } catch (const ilp::Infeasible&) {  // the whole may have plans all the same
  }
}

void MeshSearch::search_whole_within(std::int64_t budget, const Effort& each) {
  bound_within_ = {budget, 0};
  try {
    bound_within_.seconds = search_model(space_, budget, each);
  } catch (const ilp::Infeasible& infeasible) {
    if (best(budget) != nullptr) return;
    bound_within_.seconds = std::numeric_limits<double>::infinity();
    throw over_budget(infeasible, budget);
  }
}

/// Tries the small model of memory, which leaves out copies that only one node reads, under a limit lowered
/// by what the last plan exceeded the budget by; then, if need be, the full model. Returns a bound.
double MeshSearch::search_model(const SearchSpace& space, std::int64_t budget, const Effort& each) {
  double bound = 0;
  std::int64_t limit = budget;
  for (int k = 0; k < kBudgetAttempts && limit > 0 && (k == 0 || !time_.is_over()); ++k) {
    try {
      const std::optional<ShardingPlan> plan = solve_within(space, {limit, false}, each);
      if (!plan) break;
      if (limit == budget) bound = plan->cost.lower_bound_seconds;
      const std::int64_t peak = known_.back().bytes;
      if (peak <= budget) return bound;
      limit -= peak - budget;
    } catch (const ilp::Infeasible&) {
      if (k == 0) throw;
      break;
    }
  }
  if (best(budget) == nullptr) solve_within(space, {budget, true}, each);
  return bound;
}

std::optional<ShardingPlan> MeshSearch::solve_within(const SearchSpace& space, const MemoryLimit& memory,
                                                     const Effort& effort) {
  ilp::Options solver;
  solver.relative_gap = kBudgetGap;
  const Instance instance = build_instance(graph_, space, mesh_, memory);
  std::optional<ShardingPlan> plan = solve(space, instance, solver, effort);
  if (plan) {
    keep(*plan);
    bytes_of(known_.back());
  }
  return plan;
}

/// The best plan of a program, starting from what is known. Nothing if none was found in time. Throws
/// ilp::Infeasible.
std::optional<ShardingPlan> MeshSearch::solve(const SearchSpace& space, const Instance& instance,
                                              ilp::Options solver, const Effort& effort) {
  solver.time_limit_seconds = std::max(effort.least_seconds, std::min(effort.seconds, time_.left()));
  solver.work_limit = effort.work;
  solver.stop = time_.stop();
  solver.elimination_cells = 1 << 24;  // training graphs are narrow: what fits is solved without branching
  solver.reductions.merge = false;     // merging would undo what nodes for specs are there for
  solver.start = start(space, instance);
  try {
    const ilp::Solution solution = ilp::solve(instance.problem, solver);
    statistics_.solve_seconds += solution.seconds;
    ShardingPlan plan = assemble_plan(graph_, space, instance, solution.choice, mesh_, facts_.prices);
    plan.method = options_.method;
    plan.cost = evaluate(plan, graph_, model_);
    check_objective(plan.cost, solution, instance);
    plan.cost.lower_bound_seconds = bound_of(solution, plan.cost, instance);
    plan.statistics.nodes = solution.statistics.nodes;
    plan.statistics.strategies = static_cast<int>(solution.statistics.strategies);
    plan.statistics.variables = static_cast<int>(solution.statistics.variables);
    plan.statistics.constraints = static_cast<int>(solution.statistics.constraints);
    return plan;
  } catch (const ilp::TimedOut&) {
    return std::nullopt;
  }
}

/// The cheapest known plan that the program allows.
std::vector<int> MeshSearch::start(const SearchSpace& space, const Instance& instance) const {
  std::vector<int> cheapest;
  std::int64_t least = ilp::kInfinite;
  for (const Known& known : known_) {
    std::optional<std::vector<int>> choice = choice_of(known.plan, graph_, space, instance);
    if (!choice) continue;
    const ilp::Evaluation evaluation = ilp::evaluate(instance.problem, *choice);
    if (!evaluation.feasible || evaluation.cost >= least) continue;
    least = evaluation.cost;
    cheapest = *std::move(choice);
  }
  return cheapest;
}

std::int64_t MeshSearch::cells() {
  std::int64_t sum = 0;
  for (const ilp::Edge& edge : whole_instance().problem.edges)
    sum += static_cast<std::int64_t>(edge.costs->size());
  return sum;
}

const Instance& MeshSearch::whole_instance() {
  if (!instance_) instance_ = std::make_unique<Instance>(build_instance(graph_, space_, mesh_));
  return *instance_;
}

void MeshSearch::keep(ShardingPlan plan) { known_.push_back({std::move(plan)}); }

std::int64_t MeshSearch::bytes_of(Known& known) const {
  if (known.bytes < 0) known.bytes = peak_memory(known.plan, graph_).bytes;
  return known.bytes;
}

const ShardingPlan* MeshSearch::best(std::optional<std::int64_t> budget) {
  ShardingPlan* cheapest = nullptr;
  for (Known& known : known_) {
    if (budget && bytes_of(known) > *budget) continue;
    if (cheapest == nullptr || known.plan.cost.objective_seconds < cheapest->cost.objective_seconds)
      cheapest = &known.plan;
  }
  if (cheapest != nullptr) cheapest->statistics = statistics_;
  return cheapest;
}

OverBudget MeshSearch::over_budget(const ilp::Infeasible& infeasible, std::int64_t budget) const {
  if (infeasible.missing_usage <= 0)
    return OverBudget(fmt::format("method {}: no plan on a {} mesh fits into {} bytes per device",
                                  options_.method, shape_text(mesh_), budget));
  AutoShardOptions options = options_;
  options.memory_budget_bytes = budget;
  OverBudget error(memory_error(infeasible, graph_, space_, mesh_, options));
  error.missing_bytes = infeasible.missing_usage;
  return error;
}

}  // namespace alpa
