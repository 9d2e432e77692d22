// Searches one mesh: the program of the whole search space, and of templates
#include "src/search/sharding/mesh_search.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "alpa/base/error.h"
#include "src/ilp/model/deadline.h"
#include "src/ilp/model/fold.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/layers/layered_plan.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/program/memory_usage.h"
#include "src/search/program/repeated_layers.h"
#include "src/search/sharding/templates.h"

namespace alpa::intra_op {
namespace {

/// The plan's own price must be the solver's, up to the rounding of every cost to whole
/// units. Where time ran out, the solver may have paid for a copy that nothing reads;
/// the plan then costs less.
void check_objective(const PlanCost& cost, const ilp::Solution& solution,
                     const Instance& instance) {
  const double solved = static_cast<double>(solution.cost) / instance.units_per_second;
  const double terms =
      static_cast<double>(instance.problem.nodes.size() + instance.problem.edges.size());
  const double tolerance = terms / instance.units_per_second + 1e-9 * std::abs(solved);
  const double difference = solved - cost.objective_seconds;
  invariant(difference >= -tolerance && (difference <= tolerance || !solution.optimal),
            "the plan costs {} s but the solver's objective is {} s (tolerance {} s)",
            cost.objective_seconds, solved, tolerance);
}

double seconds_of(std::int64_t cost, const Instance& instance) {
  return static_cast<double>(cost) / instance.units_per_second;
}

double bound_of(const ilp::Solution& solution, const PlanCost& cost, const Instance& instance) {
  if (solution.optimal) return cost.objective_seconds;
  return std::min(cost.objective_seconds, seconds_of(solution.lower_bound, instance));
}

/// The solver's progress in seconds.
std::function<void(std::int64_t, std::int64_t)> in_seconds(const Effort& effort,
                                                           const Instance& instance) {
  if (!effort.progress) return {};
  return [&](std::int64_t cost, std::int64_t bound) {
    effort.progress(seconds_of(cost, instance), seconds_of(bound, instance));
  };
}

/// True where the batch is split over the whole mesh and state may be split.
bool splits_batch(const std::vector<AxisUse>& uses) {
  return std::all_of(uses.begin(), uses.end(),
                     [](AxisUse use) { return use == AxisUse::batch || use == AxisUse::any; });
}

std::int64_t strategies(const Graph& graph, const SearchSpace& space) {
  std::int64_t sum = 0;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    sum += static_cast<std::int64_t>(space.of(n).strategies.size());
  return sum;
}

/// True if region apply reads a shared input. A part of the graph has a value of another part
/// either per micro-batch or once per step, so such graphs are not planned by layers.
bool reads_shared_once(const Graph& graph) {
  const auto is_shared = [&](int value) {
    const Input* input = find_input(graph, value);
    return input && input->kind == InputKind::shared;
  };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return node.region == Region::apply &&
           std::any_of(node.operands.begin(), node.operands.end(), is_shared);
  });
}

}  // namespace

MeshSearch::MeshSearch(const SharedFacts& graph, const DeviceMesh& mesh,
                       const cost::CostModel& model, const AutoShardOptions& options,
                       const PlanningTime& time, PlanningCache& cache)
    : graph_(graph->graph),
      mesh_(mesh),
      model_(allowed_model(model, options)),
      options_(options),
      cache_(cache),
      facts_(cache.of(mesh_, model_)),
      time_(time),
      space_(search_space(graph, options, facts_)),
      bound_(least_seconds(graph_, space_)) {}

/// True if there are enough layers for tables of layers to take less time than
/// the program of all layers.
bool MeshSearch::has_many_layers() const {
  const bool whole = !reads_shared_once(graph_) && options_.allowed.leaves_axes_free();
  std::set<int> layers;
  for (const Node& node : graph_.nodes)
    if (node.layer >= 0) layers.insert(node.layer);
  return whole && layers.size() >= search::kTuning.mesh_search.many_layers;
}

/// Equal layers are solved once. What cannot be planned by layers is left to
/// the program of the whole.
void MeshSearch::search_layers(const Effort& effort, bool exact) {
  layers_searched_ = !exact;
  // The cutoff is this mesh's own best plan: the tables go on to a proof.
  const bool leads =
      (1 - options_.limits.relative_gap) * seconds_of(best()) <= effort.cutoff_seconds * (1 + 1e-9);
  const LayeringLimits limits{.most_cells = search::kTuning.mesh_search.layer_cells,
                              .work = std::max(effort.work, effort.layers_work),
                              .is_over = [this] { return time_.is_over(); },
                              .exact = exact,
                              .cutoff_seconds = leads ? kInfinity : effort.cutoff_seconds};
  try {
    auto planned = plan_by_layers(graph_, mesh_, model_, options_, cache_, limits);
    statistics_.solve_seconds +=
        std::visit([](const auto& found) { return static_cast<double>(found.work); }, planned) /
        ilp::kCellsPerSecond;
    if (auto* layered = std::get_if<LayeredPlan>(&planned)) {
      layers_searched_ = true;
      bound_ = std::max(bound_, layered->plan.cost.lower_bound_seconds);
      keep(std::move(layered->plan));
    } else {
      bound_ = std::max(bound_, std::get<LayerTooLarge>(planned).lower_bound_seconds);
    }
    // layers that cannot be put together; the whole may have plans all the same
  } catch (const Error&) {
  }
}

void MeshSearch::search_repeated(const Effort& effort, std::optional<std::int64_t> budget) {
  Effort repeated = effort;
  repeated.repeated = true;
  repeated.share_of_time *= search::kTuning.mesh_search.repeated_share;
  repeated.explain = false;
  repeated.progress = {};  // its bound is one of repeated layers alone
  try {
    if (budget) {
      search_model(space_, *budget, repeated);
      return;
    }
    Solved solved = solve(space_, whole_instance(), repeated);
    repeats_ = solved.plan.has_value();
    if (solved.plan) keep(*std::move(solved.plan));
  } catch (const Error&) {  // the whole may have plans all the same
  }
}

void MeshSearch::search_exact_layers(const Effort& effort) {
  if (!layers_searched_ && has_many_layers()) search_layers(effort, true);
}

void MeshSearch::search(const Effort& effort) {
  if (!layers_searched_ && has_many_layers()) search_layers(effort, false);
  const double enough =
      (1 - options_.limits.relative_gap) * std::min(seconds_of(best()), effort.cutoff_seconds);
  if (layers_searched_ && best() != nullptr && bound_ >= enough) return;
  try {
    Solved solved = solve(space_, whole_instance(), effort);
    bound_ = std::max(bound_, solved.bound);
    if (!solved.plan) return;
    statistics_.nodes = solved.plan->statistics.nodes;
    statistics_.strategies = solved.plan->statistics.strategies;
    statistics_.variables = solved.plan->statistics.variables;
    statistics_.constraints = solved.plan->statistics.constraints;
    keep(*std::move(solved.plan));
  } catch (const ilp::Infeasible&) {
    bound_ = kInfinity;
    fail(
        "method {}: no plan on a {} mesh satisfies the options; allow all_gather and all_to_all, "
        "or forbid less",
        options_.method, shape_text(mesh_));
  }
}

void MeshSearch::search_templates(double cutoff_seconds, int most,
                                  std::optional<std::int64_t> budget) {
  make_templates();
  std::int64_t late = 0;
  for (Template& part : templates_) {
    if (budget && time_.is_long_over()) return;
    const ShardingPlan* known = best(budget);
    if (part.is_solved || !can_beat(std::min(cutoff_seconds, seconds_of(known)), part)) continue;
    if (most-- <= 0) return;
    if (time_.is_over()) late += strategies(graph_, *part.space);
    if (late > search::kTuning.mesh_search.late_strategies && known != nullptr) return;
    solve_template(part);
  }
}

/// False if all plans of the template are proven to take at least as long.
bool MeshSearch::can_beat(double seconds, Template& part) {
  if (part.wider >= 0) part.bound = std::max(part.bound, templates_[part.wider].bound);
  if (part.bound >= seconds || part.space) return part.bound < seconds;
  try {
    part.space = std::make_unique<SearchSpace>(search_space(space_.graph, part.options, facts_));
    part.bound = std::max(part.bound, least_seconds(graph_, *part.space));
  } catch (const Error&) {  // the batch is too small
    part.bound = kInfinity;
  }
  return part.bound < seconds;
}

void MeshSearch::solve_template(Template& part) {
  part.is_solved = true;
  try {
    auto [plan, bound] =
        solve(*part.space, build_instance(graph_, *part.space, mesh_),
              {.work = std::max(search::kTuning.mesh_search.template_work,
                                search::kTuning.mesh_search.template_work_per_cell * cells()),
               .least_seconds = search::kTuning.mesh_search.template_seconds});
    part.bound = std::max(part.bound, bound);
    if (!plan) return;
    if (!choice_of(*plan, graph_, space_, whole_instance())) return;
    ShardingPlan again = with_copies_made_again(*plan, *space_.graph);
    const bool differs = !std::equal(
        again.reshards.begin(), again.reshards.end(), plan->reshards.begin(), plan->reshards.end(),
        [](const PlannedReshard& a, const PlannedReshard& b) { return a.once == b.once; });
    keep(*std::move(plan));
    if (!differs) return;
    again.cost = evaluate(again, *space_.graph, model_);
    keep(std::move(again));
  } catch (const ilp::Infeasible&) {  // the whole may have plans all the same
    part.bound = kInfinity;
  }
}

void MeshSearch::make_templates() {
  const AllowedPlans& allowed = options_.allowed;
  const bool narrow = allowed.split_batch_everywhere || !allowed.axis_uses.empty();
  if (!templates_.empty() || narrow || mesh_.num_devices() == 1) return;
  std::map<std::vector<AxisUse>, int> numbers;
  for (const std::vector<AxisUse>& uses : templates_of(mesh_)) {
    if (allowed.batch_mesh_axis && uses[*allowed.batch_mesh_axis] == AxisUse::tensor) continue;
    const bool holds_state = std::find(uses.begin(), uses.end(), AxisUse::data) != uses.end();
    if (allowed.optimizer_state == Holding::split && holds_state) continue;
    const auto wider = numbers.find(wider_template(uses));
    numbers[uses] = static_cast<int>(templates_.size());
    templates_.push_back({options_});
    templates_.back().options.allowed.axis_uses = uses;
    if (wider != numbers.end()) templates_.back().wider = wider->second;
  }
}

void MeshSearch::search_within(std::int64_t budget, const Effort& each) {
  if (best(budget) == nullptr && !time_.is_over()) search_repeated(each, budget);
  if (options_.limits.first_plan && best(budget) != nullptr) return;
  const bool easy = templates_.empty();  // without a budget
  const double known = seconds_of(best(budget));
  // where another mesh has the best plan, the whole mostly proves that none here is cheaper
  const bool whole_first = easy || each.cutoff_seconds < known;
  if (whole_first)
    search_whole_within(budget, each);
  else if (best(budget) == nullptr)
    refute(budget, each);
  const double enough = (1 - each.relative_gap) * seconds_of(best(budget));
  if (whole_first && bound_within(budget) >= std::min(enough, each.cutoff_seconds)) return;
  if (repeats_ && bound_within(budget) >=
                      search::kTuning.mesh_search.repeated_enough * seconds_of(best(budget)))
    return;
  search_templates(each.cutoff_seconds, std::numeric_limits<int>::max(), budget);
  if (time_.is_over() && best(budget) != nullptr) return;
  Effort part_effort = each;
  part_effort.explain = false;
  for (Template& part : templates_) try {
      if (!time_.is_long_over() && splits_batch(part.options.allowed.axis_uses) &&
          can_beat(seconds_of(best(budget)), part))
        search_model(*part.space, budget, part_effort);
    } catch (const ilp::Infeasible&) {  // the whole may have plans all the same
    }
  search_batch_axes(part_effort, budget);
  if (!whole_first || (!easy && seconds_of(best(budget)) < known))
    search_whole_within(budget, each);
}

void MeshSearch::search_batch_axes(const Effort& each, std::optional<std::int64_t> budget) {
  if (!options_.allowed.leaves_axes_free()) return;
  for (int axis = 0; axis < mesh_.num_axes() && !time_.is_over(); ++axis) {
    if (mesh_.size(axis) == 1) continue;
    AutoShardOptions part = options_;
    part.allowed.batch_mesh_axis = axis;
    try {
      const SearchSpace space = search_space(space_.graph, part, facts_);
      if (budget) {
        search_model(space, *budget, each);
        continue;
      }
      Solved solved = solve(space, build_instance(graph_, space, mesh_), each);
      if (solved.plan) keep(*std::move(solved.plan));
      // no plan, or too small a batch: the whole may have plans all the same
    } catch (const Error&) {
    }
  }
}

/// Proves that no plan fits the budget, or usually finds one at any cost. Either takes a small
/// part of the time of the full search.
void MeshSearch::refute(std::int64_t budget, const Effort& each) {
  Effort any = each;
  any.relative_gap = search::kTuning.mesh_search.any_gap;
  try {
    solve_within(space_, {budget, false}, any);
  } catch (const ilp::Infeasible& infeasible) {
    bound_within_ = {budget, kInfinity};
    throw over_budget(infeasible, budget);
  }
}

void MeshSearch::search_whole_within(std::int64_t budget, const Effort& each) {
  if (bound_within_.budget != budget) bound_within_ = {budget, 0};
  try {
    bound_within_.seconds = std::max(bound_within_.seconds, search_model(space_, budget, each));
  } catch (const ilp::Infeasible& infeasible) {
    if (best(budget) != nullptr) return;
    bound_within_.seconds = kInfinity;
    throw over_budget(infeasible, budget);
  }
}

/// Tries the small model of memory, without copies that only one node reads, under a limit lowered
/// by the last plan's excess. Then, if necessary, tries the full model. Returns a bound.
double MeshSearch::search_model(const SearchSpace& space, std::int64_t budget, const Effort& each) {
  double bound = 0;
  std::int64_t limit = budget;
  Effort effort = each;
  for (int k = 0;
       k < search::kTuning.mesh_search.budget_attempts && limit > 0 && (k == 0 || !time_.is_over());
       ++k) {
    try {
      effort.explain &= limit == budget;
      const Known* found = solve_within(space, {limit, options_.part.in_flight}, effort,
                                        limit == budget ? &bound : nullptr);
      if (found == nullptr) break;
      if (found->bytes <= budget) return bound;
      limit -= found->bytes - budget;
    } catch (const ilp::Infeasible&) {
      if (k == 0) throw;
      break;
    }
  }
  if (best(budget) == nullptr) solve_within(space, {budget, options_.part.in_flight, true}, each);
  return bound;
}

/// Null if no plan was found in time.
const MeshSearch::Known* MeshSearch::solve_within(const SearchSpace& space,
                                                  const MemoryLimit& memory, const Effort& effort,
                                                  double* bound) {
  if (time_.is_long_over()) return nullptr;
  Effort close = effort;
  close.relative_gap = std::max(search::kTuning.mesh_search.budget_gap, effort.relative_gap);
  const Instance instance = build_instance(graph_, space, mesh_, memory);
  auto [plan, proven] = solve(space, instance, close);
  if (bound) *bound = proven;
  if (!plan) return nullptr;
  Known& known = keep(*std::move(plan));
  bytes_of(known);
  return &known;
}

/// The best plan of a program, starting from what is known. Without a plan if none was found in
/// time, or none is cheaper than the cutoff. Throws ilp::Infeasible.
MeshSearch::Solved MeshSearch::solve(const SearchSpace& space, const Instance& instance,
                                     const Effort& effort) {
  std::optional<ilp::Folded> folded;
  if (effort.repeated) {
    const std::vector<int> groups = repeated_layers(graph_, space, instance);
    if (!groups.empty()) folded = ilp::fold(instance.problem, groups);
    if (!folded) return {};
  }
  const ilp::Problem& problem = folded ? folded->problem : instance.problem;
  ilp::Options solver;
  const double most = std::max(effort.least_seconds, effort.share_of_time * time_.left());
  solver.limits.seconds = std::max(effort.least_seconds, time_.clock_left());
  solver.limits.work =
      std::min(effort.work, static_cast<std::int64_t>(most / ilp::kSecondsPerCell));
  solver.limits.stop = effort.after_the_end ? nullptr : options_.limits.stop;
  // a first plan of this mesh is worth more time only where no mesh has one
  solver.limits.grace = !folded && effort.cutoff_seconds == kInfinity;
  solver.limits.relative_gap = effort.relative_gap;
  solver.limits.modest_gap = effort.modest_gap;
  solver.limits.modest_share = effort.modest_share;
  solver.limits.cutoff = units(std::ceil(effort.cutoff_seconds * instance.units_per_second), 1);
  solver.progress = in_seconds(effort, instance);
  solver.explain = effort.explain && !time_.is_long_over();
  solver.methods.elimination_cells = search::kTuning.mesh_search.elimination_cells;
  solver.methods.presolve.merge = false;  // makes tables over strategies of tables over specs
  // in so short a time only a round of the dual bound is to be had
  solver.methods.presolve.elimination = !effort.after_the_end;
  if (!folded) solver.start = start(space, instance);
  if (instance.problem.usage_limit)
    for (auto [time, price] : usage_prices_)
      solver.usage_prices[time] = price * instance.units_per_second;
  try {
    const ilp::Solution solution = ilp::solve(problem, solver);
    keep_prices(solution, instance);
    statistics_.solve_seconds += solution.seconds;
    ShardingPlan plan =
        plan_of(space, instance, folded ? folded->unfolded(solution.choice) : solution.choice);
    check_objective(plan.cost, solution, instance);
    plan.cost.lower_bound_seconds = folded ? 0 : bound_of(solution, plan.cost, instance);
    plan.statistics.nodes = solution.statistics.nodes;
    plan.statistics.strategies = static_cast<int>(solution.statistics.strategies);
    plan.statistics.variables = static_cast<int>(solution.statistics.variables);
    plan.statistics.constraints = static_cast<int>(solution.statistics.constraints);
    const double bound = plan.cost.lower_bound_seconds;
    return {std::move(plan), bound};
  } catch (const ilp::TimedOut& end) {
    statistics_.solve_seconds += end.seconds;
    return {std::nullopt, folded ? 0 : std::max(0.0, seconds_of(end.lower_bound, instance))};
  } catch (const ilp::Infeasible& infeasible) {
    if (!folded && !infeasible.choice.empty()) keep(plan_of(space, instance, infeasible.choice));
    throw;
  }
}

void MeshSearch::keep_prices(const ilp::Solution& solution, const Instance& instance) {
  const double seconds = seconds_of(solution.cost, instance);
  if (solution.usage_prices.empty() || seconds > priced_seconds_) return;
  priced_seconds_ = seconds;
  usage_prices_.clear();
  for (auto [time, price] : solution.usage_prices)
    usage_prices_[time] = price / instance.units_per_second;
}

ShardingPlan MeshSearch::plan_of(const SearchSpace& space, const Instance& instance,
                                 const std::vector<int>& choice) {
  ShardingPlan plan = assemble_plan(graph_, space, instance, choice, mesh_, facts_.prices);
  plan.method = options_.method;
  plan.cost = evaluate(plan, *space.graph, model_);
  return plan;
}

/// The cheapest known plan that the program allows.
std::vector<int> MeshSearch::start(const SearchSpace& space, const Instance& instance) const {
  for (const Known& known : known_) {
    std::optional<std::vector<int>> choice = choice_of(known.plan, graph_, space, instance);
    if (choice && ilp::evaluate(instance.problem, *choice).feasible) return *std::move(choice);
  }
  return {};
}

std::int64_t MeshSearch::cells() {
  std::int64_t sum = 0;
  for (const ilp::Edge& edge : whole_instance().problem.edges)
    sum += static_cast<std::int64_t>(edge.costs->size());
  for (const ilp::SharedCost& shared : whole_instance().problem.shared)
    sum += static_cast<std::int64_t>(shared.costs->size() * shared.readers.size());
  return sum;
}

const Instance& MeshSearch::whole_instance() {
  if (!instance_) instance_ = std::make_unique<Instance>(build_instance(graph_, space_, mesh_));
  return *instance_;
}

MeshSearch::Known& MeshSearch::keep(ShardingPlan plan) {
  const auto place = std::upper_bound(known_.begin(), known_.end(), plan.cost.objective_seconds,
                                      [](double seconds, const Known& known) {
                                        return seconds < known.plan.cost.objective_seconds;
                                      });
  return *known_.insert(place, {std::move(plan)});
}

std::int64_t MeshSearch::bytes_of(Known& known) const {
  if (known.bytes < 0)
    known.bytes = counted_bytes(known.plan, *space_.graph).with(options_.part.in_flight);
  return known.bytes;
}

const ShardingPlan* MeshSearch::best(std::optional<std::int64_t> budget) {
  for (Known& known : known_) {
    if (budget && bytes_of(known) > *budget) continue;
    known.plan.statistics = statistics_;
    return &known.plan;
  }
  return nullptr;
}

OverBudget MeshSearch::over_budget(const ilp::Infeasible& infeasible, std::int64_t budget) {
  if (infeasible.missing_usage <= 0) {
    OverBudget error(fmt::format("method {}: no plan on a {} mesh fits into {} bytes per device",
                                 options_.method, shape_text(mesh_), budget),
                     NoPlan::proven);
    error.least_bytes = budget + 1;
    return error;
  }
  AutoShardOptions options = options_;
  options.memory_budget_bytes = budget;
  std::int64_t smallest = 0;
  for (Known& known : known_)
    if (smallest == 0 || bytes_of(known) < smallest) smallest = bytes_of(known);
  OverBudget error(memory_error(infeasible, graph_, space_, mesh_, options, smallest),
                   NoPlan::proven);
  error.missing_bytes = infeasible.missing_usage;
  error.least_bytes = budget + infeasible.missing_usage;
  error.smallest_bytes = smallest;
  return error;
}

}  // namespace alpa::intra_op
