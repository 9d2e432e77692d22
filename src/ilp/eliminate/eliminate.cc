// Elimination of components, and of all but a boundary, on tables that equal parts share
#include "src/ilp/eliminate/eliminate.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/ilp/eliminate/elimination_planner.h"
#include "src/ilp/model/boundary_table.h"
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/reduce/presolve.h"

namespace alpa::ilp {
namespace {

/// Computes every table before the model changes, so that a deadline leaves it as it was.
void carry_out(Model& model, Tables& tables, const std::vector<Elimination>& order,
               Allowance allowance, const Deadline& deadline) {
  for (const Elimination& step : order)
    if (!compute(tables, step.table, allowance, deadline)) return;
  for (const Elimination& step : order) {
    std::vector<int> edges = model.nodes[step.node].edges;
    for (int e : edges) remove_edge(model, e);
    const Result& result = tables.outcomes[step.table].result;
    retire(model, step.node, step.scope, result.best);
    if (!step.scope.empty()) continue;
    const Cost cost = tables.costs[result.contents][0];
    if (cost >= kNever) throw Contradiction{};
    model.constant += cost + result.more;
  }
}

/// Live nodes by connected component.
std::vector<std::vector<int>> components(const Model& model) {
  std::vector<char> seen(model.nodes.size());
  std::vector<std::vector<int>> result;
  for (int root : live_nodes(model)) {
    if (seen[root]) continue;
    std::vector<int> members = {root};
    seen[root] = 1;
    for (std::size_t i = 0; i < members.size(); ++i)
      for (int e : model.nodes[members[i]].edges) {
        int other = model.edges[e].other(members[i]);
        if (!seen[other]) seen[other] = 1, members.push_back(other);
      }
    std::sort(members.begin(), members.end());
    result.push_back(std::move(members));
  }
  return result;
}

/// The tables of an elimination that was planned; nothing if they take more
/// than the allowance after all.
std::optional<BoundaryTable> boundary_table(EliminationPlanner& planner,
                                            std::span<const int> boundary, Allowance allowance,
                                            const Deadline& deadline) {
  const Model& model = planner.model();
  Tables& tables = planner.tables();
  for (const Elimination& step : planner.order())
    if (!compute(tables, step.table, allowance, deadline)) return std::nullopt;
  const int rest = planner.rest();
  if (!compute(tables, rest, allowance, deadline)) return std::nullopt;
  const auto sizes_of = [&](const std::vector<int>& nodes) {
    std::vector<int> sizes;
    for (int node : nodes) sizes.push_back(model.nodes[node].size());
    return sizes;
  };
  BoundaryTable table{{boundary.begin(), boundary.end()},
                      {},
                      {},
                      static_cast<int>(model.nodes.size()),
                      model.trail};
  table.sizes = sizes_of(table.boundary);
  const Result& result = tables.outcomes[rest].result;
  for (Cost cost : tables.costs[result.contents])
    table.costs.push_back(cost >= kNever ? kInfinite : cost + result.more + model.constant);
  for (const Elimination& step : planner.order())
    table.steps.push_back(
        {step.node, step.scope, sizes_of(step.scope), tables.outcomes[step.table].result.best});
  return table;
}

/// The model after reductions that leave `boundary`, and nodes with joint costs, as they are.
Model reduced_around(Model model, std::span<const int> boundary, std::span<const JointCosts> joint,
                     const Deadline& deadline) {
  for (int node : boundary) model.nodes[node].kept = true;
  for (const JointCosts& costs : joint)
    for (int node : costs.nodes) model.nodes[node].kept = true;
  presolve(model, {}, deadline);
  return model;
}

/// No choice of the other nodes exists.
BoundaryTable forbidden_table(const Model& model, std::span<const int> boundary) {
  BoundaryTable result{
      {boundary.begin(), boundary.end()}, {}, {}, static_cast<int>(model.nodes.size()), {}};
  std::size_t cells = 1;
  for (int node : boundary) {
    result.sizes.push_back(model.nodes[node].size());
    cells *= static_cast<std::size_t>(model.nodes[node].size());
  }
  result.costs.assign(cells, kInfinite);
  return result;
}

/// Of an elimination whose tables have at most so many cells.
Allowance allowance_of(double cells) {
  return {kTuning.eliminate.steps_per_cell * cells, kTuning.eliminate.tables * cells};
}

std::variant<BoundaryTable, TableTooLarge> eliminated(const Problem& problem,
                                                      std::span<const int> boundary,
                                                      std::int64_t most_cells,
                                                      std::span<const JointCosts> joint,
                                                      const Deadline& never) {
  const Model whole = with_copies(build(problem, false, never));
  const double cells = static_cast<double>(most_cells);
  double size = 1;
  for (int node : boundary) size *= whole.nodes[node].size();
  if (size > cells) return TableTooLarge{size};
  const Allowance allowed = allowance_of(cells);
  try {
    // Reductions make tables smaller, but may join followers to nodes with many
    // neighbours: the better of both.
    const Model reduced = reduced_around(whole, boundary, joint, never);
    std::vector<std::unique_ptr<EliminationPlanner>> planners;
    EliminationPlanner* best = nullptr;
    double least = kInfinity;
    for (const Model* model : {&whole, &reduced})
      for (bool copies_first : {false, true}) {
        EliminationPlanner& planner = *planners.emplace_back(
            std::make_unique<EliminationPlanner>(*model, copies_first, never, boundary));
        for (const JointCosts& costs : joint) planner.add(costs);
        const bool fits = planner.plan(live_nodes(*model), cells, allowed);
        least = std::min(least, planner.largest());
        if (fits && (!best || planner.steps() < best->steps())) best = &planner;
      }
    if (!best) return TableTooLarge{least};
    auto table =
        boundary_table(*best, boundary, {allowed.steps + size, allowed.cells + cells}, never);
    if (table) {
      table->nodes = static_cast<int>(problem.nodes.size());
      table->copies = static_cast<int>(whole.nodes.size() - problem.nodes.size());
      return *std::move(table);
    }
    return TableTooLarge{best->largest()};
  } catch (const Contradiction&) {
    return forbidden_table(whole, boundary);
  }
}

}  // namespace

std::variant<BoundaryTable, TableTooLarge> eliminate_to(const Problem& problem,
                                                        std::span<const int> boundary,
                                                        std::int64_t most_cells,
                                                        std::span<const JointCosts> joint,
                                                        std::int64_t* work) {
  validate(problem);
  require(!problem.usage_limit,
          "eliminate_to: the problem has a usage limit, which no table can hold");
  const Deadline counting(kInfinity, std::numeric_limits<std::int64_t>::max());
  auto result = eliminated(problem, boundary, most_cells, joint, counting);
  if (work) *work += static_cast<std::int64_t>(counting.elapsed() * kCellsPerSecond);
  return result;
}

namespace {

/// Components that can be eliminated as they are.
void eliminate_components(Model& model, std::int64_t cells, const Deadline& deadline) {
  for (const std::vector<int>& component : components(model)) {
    if (deadline.passed()) return;
    if (std::any_of(component.begin(), component.end(), [&](int i) {
          return !model.nodes[i].pieces.empty() || !model.nodes[i].terms.empty();
        }))
      continue;
    const double largest = static_cast<double>(cells);
    const Allowance allowance = allowance_of(largest);
    EliminationPlanner plain(model, false, deadline);
    const bool first = plain.plan(component, largest, allowance);
    // another plan would cost more than it could save
    if (first && plain.steps() <= plain.planning()) {
      carry_out(model, plain.tables(), plain.order(), allowance, deadline);
      continue;
    }
    EliminationPlanner copies(model, true, deadline);
    const bool second = copies.plan(component, largest, allowance);
    if (!first && !second) continue;
    EliminationPlanner& better =
        !second || (first && plain.steps() <= copies.steps()) ? plain : copies;
    carry_out(model, better.tables(), better.order(), allowance, deadline);
  }
}

/// Pairs of strategies of a source and a reader, over all live terms.
double cells_of_terms(const Model& model) {
  double cells = 0;
  for (const SharedTerm& term : model.terms)
    if (term.alive)
      for (const SharedEnd& reader : term.readers)
        cells += static_cast<double>(term.source.classes.size() * reader.classes.size());
  return cells;
}

}  // namespace

void eliminate(Model& model, std::int64_t cells, const Deadline& deadline) {
  eliminate_components(model, cells, deadline);
  if (!has_terms(model) || !model.slack.empty()) return;
  const double planning =
      kTuning.eliminate.planning_per_cell * cells_of_terms(model) / kCellsPerSecond;
  if (planning > kTuning.eliminate.planning_share * deadline.left()) return;
  Model wide = with_copies(model);
  eliminate_components(wide, cells, deadline);
  if (live_nodes(wide).empty()) model = std::move(wide);
}

}  // namespace alpa::ilp
