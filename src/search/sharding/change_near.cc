// Changes a plan for a pinned operator: larger and larger neighbourhoods, each solved as a program
#include "src/search/sharding/change_near.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/ilp/solve.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/program/instance.h"
#include "src/search/tuning.h"

namespace alpa::intra_op {
namespace {

/// Whether nodes share an edge or a cost, or one depends on the other, by node.
std::vector<std::vector<int>> neighbours_in(const Instance& instance) {
  std::vector<std::vector<int>> neighbours(instance.problem.nodes.size());
  const auto join = [&](int a, int b) {
    neighbours[a].push_back(b);
    neighbours[b].push_back(a);
  };
  for (const ilp::Edge& edge : instance.problem.edges) join(edge.a, edge.b);
  for (const ilp::SharedCost& shared : instance.problem.shared)
    for (const ilp::SharedEnd& reader : shared.readers) join(shared.source.node, reader.node);
  for (const DependentNode& node : instance.dependents) join(node.node, node.of);
  return neighbours;
}

/// All nodes, those nearest to `centre` first.
std::vector<int> by_distance(const std::vector<std::vector<int>>& neighbours, int centre) {
  std::vector<int> order = {centre};
  std::vector<bool> seen(neighbours.size());
  seen[centre] = true;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (int next : neighbours[order[i]])
      if (!seen[next]) seen[next] = true, order.push_back(next);
  return order;
}

/// `problem` in which every node has its strategy of `choice`.
ilp::Problem held(ilp::Problem problem, const std::vector<int>& choice) {
  for (std::size_t n = 0; n < choice.size(); ++n) {
    std::vector<std::int64_t>& costs = problem.nodes[n].costs;
    for (int s = 0; s < static_cast<int>(costs.size()); ++s)
      if (s != choice[n]) costs[s] = ilp::kInfinite;
  }
  return problem;
}

/// Strategies that leave the first result otherwise are forbidden.
void pin(ilp::Problem& problem, const SearchSpace& space, const PinnedNode& pinned) {
  const NodeStrategies& choices = space.of(pinned.node);
  const std::vector<ShardingSpec>& specs = space.layouts.of(choices.result_types[0]).specs;
  for (std::size_t s = 0; s < choices.strategies.size(); ++s)
    if (specs[choices.result_specs[0][s]] != pinned.spec)
      problem.nodes[pinned.node].costs[s] = ilp::kInfinite;
}

/// The best choice in which the nodes nearest to the pinned one differ from `choice`; empty: none.
std::vector<int> changed(const ilp::Problem& problem, const std::vector<int>& nearest,
                         std::vector<int> choice) {
  ilp::Problem partly = held(problem, choice);
  std::size_t free = 0, last_gain = 0;
  std::int64_t cost = ilp::kInfinite;
  for (std::size_t count = search::kTuning.change_near.first_nodes;; count *= 2) {
    count = std::min(count, nearest.size());
    for (; free < count; ++free)
      partly.nodes[nearest[free]].costs = problem.nodes[nearest[free]].costs;
    ilp::Options options;
    options.limits.work = search::kTuning.change_near.work;
    options.explain = false;
    if (cost < ilp::kInfinite) options.start = choice;
    try {
      ilp::Solution solution = ilp::solve(partly, options);
      if (solution.cost < cost) last_gain = count;
      cost = solution.cost, choice = std::move(solution.choice);
    } catch (const ilp::Infeasible&) {  // more nodes must change
    } catch (const ilp::TimedOut&) {
    }
    const bool is_found = cost < ilp::kInfinite;
    if (count == nearest.size() ||
        (is_found && count >= search::kTuning.change_near.enough * last_gain))
      return is_found ? choice : std::vector<int>{};
  }
}

}  // namespace

std::optional<ShardingPlan> change_near(const Graph& graph, const ShardingPlan& known,
                                        const cost::CostModel& model,
                                        const AutoShardOptions& options, PlanningCache& cache) {
  AutoShardOptions without = options;
  const PinnedNode pinned = std::exchange(without.allowed.pins, {}).at(0);
  MeshFacts& facts = cache.of(known.mesh, allowed_model(model, options));
  const SearchSpace space =
      search_space(std::make_shared<GraphFacts>(graph, &cache.rules, options.part.loops,
                                                copies_state_once(options)),
                   without, facts);
  Instance instance = build_instance(graph, space, known.mesh);
  const std::optional<std::vector<int>> start = choice_of(known, graph, space, instance);
  if (!start) return std::nullopt;
  pin(instance.problem, space, pinned);
  const std::vector<int> choice =
      changed(instance.problem, by_distance(neighbours_in(instance), pinned.node), *start);
  if (choice.empty()) return std::nullopt;
  ShardingPlan plan = assemble_plan(graph, space, instance, choice, known.mesh, facts.prices);
  plan.method = known.method;
  plan.cost = evaluate(plan, graph, facts.model);
  plan.cost.lower_bound_seconds =
      std::min(plan.cost.objective_seconds, known.cost.lower_bound_seconds);
  return plan;
}

}  // namespace alpa::intra_op
