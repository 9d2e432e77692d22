#include "alpa/ilp/solve.h"

#include <algorithm>

#include "attempt.h"
#include "core.h"
#include "eliminate.h"
#include "reduce.h"
#include "start.h"

namespace alpa::ilp {
namespace {

void validate_start(const Problem& problem, const std::vector<int>& start) {
  if (start.empty()) return;
  require(start.size() == problem.nodes.size(),
          "Options::start names {} strategies but the problem has {} nodes; give one per node, or none",
          start.size(), problem.nodes.size());
  for (std::size_t i = 0; i < start.size(); ++i)
    require(start[i] >= 0 && start[i] < static_cast<int>(problem.nodes[i].costs.size()),
            "Options::start names strategy {} for node {}, which has {} strategies; count them from 0",
            start[i], i, problem.nodes[i].costs.size());
}

void count_problem(const Problem& problem, Statistics& statistics) {
  statistics.nodes = static_cast<int>(problem.nodes.size());
  statistics.edges = static_cast<int>(problem.edges.size());
  for (const Node& node : problem.nodes)
    statistics.strategies += static_cast<std::int64_t>(node.costs.size());
}

void count_core(const Model& model, Statistics& statistics) {
  for (int i : live_nodes(model))
    ++statistics.core_nodes, statistics.core_strategies += model.nodes[i].size();
  statistics.core_edges = static_cast<int>(live_edges(model).size());
  statistics.core_rows = static_cast<int>(model.room.size());
}

/// Cells of the first elimination: where the dual bound follows, only what is cheap without fixing.
std::int64_t first_cells(const Options& options) {
  return options.dual_sweeps > 0 ? options.elimination_cells / 32 : options.elimination_cells;
}

/// What the start costs if it is feasible.
std::optional<Cost> cost_of_start(const Problem& problem, const Options& options) {
  if (options.start.empty()) return std::nullopt;
  const Evaluation evaluation = evaluate(problem, options.start);
  return evaluation.feasible ? std::optional<Cost>(evaluation.cost) : std::nullopt;
}

/// Checks the choice on the problem itself.
void finish(const Problem& problem, CoreSolution core, Solution& solution) {
  Evaluation evaluation = evaluate(problem, core.choice);
  invariant(evaluation.cost == core.cost && evaluation.feasible,
            "the solver claims cost {} but the problem prices its choice at {} with peak usage {}",
            core.cost, evaluation.cost, evaluation.peak_usage);
  solution.choice = std::move(core.choice);
  solution.cost = evaluation.cost;
  solution.peak_usage = evaluation.peak_usage;
  solution.peak_time = evaluation.peak_time;
  solution.lower_bound = std::min(solution.cost, core.bound);
  solution.optimal = solution.lower_bound == solution.cost;
}

}  // namespace

double Solution::gap() const {
  if (optimal) return 0;
  return static_cast<double>(cost - lower_bound) / std::max(1.0, std::abs(static_cast<double>(cost)));
}

std::variant<Solution, Contradiction> attempt(const Problem& problem, const Options& options,
                                              const Deadline& deadline) {
  Solution solution;
  count_problem(problem, solution.statistics);
  const std::optional<Cost> known = cost_of_start(problem, options);
  try {
    Model model = build(problem, options.reductions.arc_consistency, deadline);
    reduce(model, options, deadline);
    if (options.reductions.elimination) eliminate_components(model, first_cells(options), deadline);
    solution.statistics.reduce_seconds = deadline.elapsed();
    count_core(model, solution.statistics);
    CoreSolution core = solve_core(model, known ? *known + 1 : kNever,
                                   known ? carry_over(model, options.start, deadline) : std::vector<int>(),
                                   options, deadline, solution.statistics);
    if (!core.choice.empty() || problem.nodes.empty())
      replay(model, core.choice);
    else if (known)
      core.choice = options.start, core.cost = *known;
    else
      throw TimedOut("no feasible choice was found in time; allow more seconds");
    finish(problem, std::move(core), solution);
  } catch (const Contradiction& contradiction) {
    invariant(!known, "the solver found no choice but the start costs {}", known.value_or(0));
    return contradiction;
  }
  solution.seconds = deadline.elapsed();
  return solution;
}

Solution solve(const Problem& problem, const Options& options) {
  const Deadline deadline(options.time_limit_seconds, options.work_limit, options.stop);
  validate(problem);
  validate_start(problem, options.start);
  auto result = attempt(problem, options, deadline);
  if (auto* solution = std::get_if<Solution>(&result)) return std::move(*solution);
  explain_infeasible(problem, options, deadline);
}

}  // namespace alpa::ilp
