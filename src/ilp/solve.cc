// One solve: reductions, elimination, search, and a check of the choice on the problem
#include "src/ilp/solve.h"

#include <algorithm>
#include <cmath>

#include "src/ilp/attempt.h"
#include "src/ilp/eliminate/eliminate.h"
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/reduce/presolve.h"
#include "src/ilp/search/core.h"
#include "src/ilp/search/dive.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {
namespace {

void validate_start(const Problem& problem, const std::vector<int>& start) {
  if (start.empty()) return;
  require(
      start.size() == problem.nodes.size(),
      "Options::start names {} strategies but the problem has {} nodes; give one per node, or none",
      start.size(), problem.nodes.size());
  for (std::size_t i = 0; i < start.size(); ++i)
    require(
        start[i] >= 0 && start[i] < static_cast<int>(problem.nodes[i].costs.size()),
        "Options::start names strategy {} for node {}, which has {} strategies; count them from 0",
        start[i], i, problem.nodes[i].costs.size());
}

void count_problem(const Problem& problem, Statistics& statistics) {
  statistics.nodes = static_cast<int>(problem.nodes.size());
  for (const Node& node : problem.nodes)
    statistics.strategies += static_cast<std::int64_t>(node.costs.size());
}

/// Limit of the first elimination, in cells: low if the dual bound follows, because fixing
/// makes elimination cheaper.
std::int64_t first_cells(const Options& options) {
  return options.methods.dual_sweeps > 0
             ? options.methods.elimination_cells / kTuning.eliminate.first_part
             : options.methods.elimination_cells;
}

/// A feasible choice of the problem.
struct Known {
  std::vector<int> choice;
  Cost cost = 0;
};

std::optional<Known> feasible(const Problem& problem, const std::vector<int>& choice) {
  if (choice.empty()) return std::nullopt;
  const Evaluation evaluation = evaluate(problem, choice);
  if (!evaluation.feasible) return std::nullopt;
  return Known{choice, evaluation.cost};
}

/// A choice before any reduction, which may take all of the time. Throws
/// Contradiction if none is allowed.
std::optional<Known> first_known(const Problem& problem, const Model& model,
                                 const Deadline& deadline) {
  std::vector<int> choice = first_choice(model, kTuning.solve.early_dives, deadline);
  if (!choice.empty()) postsolve(model, choice);
  return feasible(problem, choice);
}

/// Brings the model into the form that the dual bound needs: no strategy without a
/// finite partner, normal usages.
void make_consistent(Model& model, Options options, const Deadline& deadline) {
  options.methods.presolve = Presolve{
      options.methods.presolve.arc_consistency, false, false, false, false, false, false, false};
  presolve(model, options, deadline);
}

/// No time was left to look for anything.
CoreSolution unsearched(const Model& model) {
  return {{}, kNever, plus(model.constant, least_cost(model))};
}

CoreSolution search(const Model& model, const std::optional<Known>& known, const Options& options,
                    const Deadline& deadline, Statistics& statistics) {
  if (!known) return solve_core(model, kNever, {}, options, deadline, statistics);
  return solve_core(model, known->cost + 1, carry_over(model, known->choice, deadline), options,
                    deadline, statistics);
}

TimedOut timed_out(const Options& options, const Deadline& deadline, Cost bound) {
  const bool work = options.limits.work > 0 && deadline.wall_left() > 0;
  TimedOut error(
      bound >= options.limits.cutoff
          ? fmt::format("no choice costs less than the cutoff {}; raise it", options.limits.cutoff)
      : work ? fmt::format("no feasible choice was found in a work of {} cells; allow more",
                           options.limits.work)
             : fmt::format("no feasible choice was found in {:.1f} s; allow more seconds",
                           deadline.elapsed()));
  error.lower_bound = std::max(bound, error.lower_bound);
  error.seconds = deadline.elapsed();
  return error;
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
  return static_cast<double>(cost - lower_bound) /
         std::max(1.0, std::abs(static_cast<double>(cost)));
}

std::variant<Solution, Contradiction> attempt(const Problem& problem, const Options& options,
                                              const Deadline& deadline) {
  Solution solution;
  count_problem(problem, solution.statistics);
  std::optional<Known> known = feasible(problem, options.start);
  try {
    Model model = build(problem, options.methods.presolve.arc_consistency, deadline);
    if (!known && model.slack.empty()) known = first_known(problem, model, deadline.with_grace());
    const Deadline reducing =
        known ? deadline : deadline.within(deadline.left() * kTuning.solve.share_of_reductions);
    presolve(model, options, reducing);
    if (options.methods.presolve.elimination) eliminate(model, first_cells(options), reducing);
    if (reducing.passed() && !deadline.passed()) make_consistent(model, options, deadline);
    CoreSolution core = known && deadline.passed() && !live_nodes(model).empty()
                            ? unsearched(model)
                            : search(model, known, options, deadline, solution.statistics);
    if (!core.choice.empty() || problem.nodes.empty())
      postsolve(model, core.choice), core.choice.resize(problem.nodes.size());
    else if (known)
      core.choice = std::move(known->choice), core.cost = known->cost;
    else
      throw timed_out(options, deadline, core.bound);
    solution.usage_prices = std::move(core.usage_prices);
    finish(problem, std::move(core), solution);
  } catch (const Contradiction& contradiction) {
    invariant(!known, "the solver found no choice but one costs {}", known ? known->cost : 0);
    return contradiction;
  }
  solution.seconds = deadline.elapsed();
  return solution;
}

Solution solve(const Problem& problem, const Options& options) {
  const Deadline deadline(options.limits.seconds, options.limits.work, options.limits.stop);
  validate(problem);
  validate_start(problem, options.start);
  auto result = attempt(problem, options, deadline);
  if (auto* solution = std::get_if<Solution>(&result)) return std::move(*solution);
  explain_infeasible(problem, options, std::get<Contradiction>(result), deadline);
}

}  // namespace alpa::ilp
