#include "alpa/ilp/solve.h"

#include <algorithm>

#include "attempt.h"
#include "core.h"
#include "eliminate.h"
#include "reduce.h"

namespace alpa::ilp {
namespace {

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
  try {
    Model model = build(problem, options.reductions.arc_consistency);
    reduce(model, options, deadline);
    if (options.reductions.elimination) eliminate_components(model, first_cells(options), deadline);
    solution.statistics.reduce_seconds = deadline.elapsed();
    count_core(model, solution.statistics);
    CoreSolution core = solve_core(model, kNever, options, deadline, solution.statistics);
    if (core.choice.empty() && !problem.nodes.empty())
      throw TimedOut("no feasible choice was found in time; allow more seconds");
    replay(model, core.choice);
    finish(problem, std::move(core), solution);
  } catch (const Contradiction& contradiction) {
    return contradiction;
  }
  solution.seconds = deadline.elapsed();
  return solution;
}

Solution solve(const Problem& problem, const Options& options) {
  Deadline deadline(options.time_limit_seconds);
  validate(problem);
  auto result = attempt(problem, options, deadline);
  if (auto* solution = std::get_if<Solution>(&result)) return std::move(*solution);
  explain_infeasible(problem, options, deadline);
}

}  // namespace alpa::ilp
