// src/compile/remat_choice.cc — which layers are computed again, under a memory budget
#include "remat_choice.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <set>

#include "alpa/base/error.h"
#include "plan_file.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/space/auto_shard_options.h"
#include "trace.h"

namespace alpa {
namespace {

/// What each of `layers` costs and frees on one device.
std::vector<RecomputedLayer> on_one_device(const TrainingStep& step, const std::vector<int>& layers,
                                           int num_micro_batches, const cost::CostModel& model) {
  const Graph graph = trace(with_remat(step, layers), num_micro_batches);
  const intra_op::GraphFacts facts(graph);
  const DeviceMesh mesh = DeviceMesh({{"x", 1, 0, 0}}, {0});
  cost::ReshardPrices prices(mesh, model.reshard);
  const ShardingPlan plan =
      intra_op::plan_of_strategies(facts, mesh, std::vector<Strategy>(graph.nodes.size()), prices);
  return intra_op::price_recomputed(plan, graph, model);
}

/// The plan with the first `count` layers of `order`.
CompiledStep with_first(const TrainingStep& step, const std::vector<int>& order, std::size_t count,
                        double share, const PlanStep& plan) {
  std::vector<int> layers(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
  std::sort(layers.begin(), layers.end());
  return plan(with_remat(step, std::move(layers)), share);
}

/// So many plans may be made, each in an equal share of the time: without and with all of so many
/// layers, and those of the bisection.
double share_of_a_plan(std::size_t layers) { return 1.0 / (2 + std::bit_width(layers)); }

}  // namespace

std::vector<int> layers_worth_recomputing(const TrainingStep& step, const std::vector<int>& all,
                                          int num_micro_batches, const cost::CostModel& model) {
  std::vector<RecomputedLayer> layers = on_one_device(step, all, num_micro_batches, model);
  const auto worth = [](const RecomputedLayer& layer) {
    return static_cast<double>(layer.bytes) / std::max(layer.seconds, 1e-12);
  };
  std::erase_if(layers, [](const RecomputedLayer& layer) { return layer.bytes == 0; });
  std::stable_sort(layers.begin(), layers.end(),
                   [&](const auto& a, const auto& b) { return worth(a) > worth(b); });
  std::vector<int> numbers;
  for (const RecomputedLayer& layer : layers) numbers.push_back(layer.number);
  return numbers;
}

CompiledStep with_fewest_recomputed(const TrainingStep& step, const std::vector<int>& order,
                                    CompiledStep with_all, const PlanStep& plan,
                                    const std::function<bool()>& is_over) {
  CompiledStep best = std::move(with_all);
  const double share = share_of_a_plan(order.size());
  std::size_t too_few = 0, enough = order.size();
  while (too_few + 1 < enough && !is_over()) {
    const std::size_t count = too_few + (enough - too_few) / 2;
    try {
      CompiledStep next = with_first(step, order, count, share, plan);
      if (next.plan.cost.objective_seconds <= best.plan.cost.objective_seconds)
        best = std::move(next), enough = count;
      else
        too_few = count;      // it fits, but only with slower strategies
    } catch (const Error&) {  // over budget, or late: `best` has more layers and fits
      too_few = count;
    }
  }
  return best;
}

CompiledStep plan_choosing_remat(const TrainingStep& step, int num_micro_batches,
                                 const cost::CostModel& model, const PlanStep& plan) {
  const double share = share_of_a_plan(remat_layers(trace(step, num_micro_batches)).size());
  std::exception_ptr failure;
  intra_op::NoPlan why{};  // without any
  try {
    return plan(with_remat(step, {}), share);
  } catch (const intra_op::OverBudget& error) {
    failure = std::current_exception();
    why = error.why;
  }
  const std::vector<int> order = layers_worth_recomputing(
      step, remat_layers(trace(step, num_micro_batches)), num_micro_batches, model);
  if (order.empty()) std::rethrow_exception(failure);
  try {
    return with_fewest_recomputed(step, order, with_first(step, order, order.size(), share, plan),
                                  plan, [] { return false; });
  } catch (const intra_op::OverBudget& error) {
    // Some layers, not none and not all, have not been tried.
    const auto others = order.size() > 1 ? intra_op::NoPlan::not_found : intra_op::NoPlan::proven;
    throw intra_op::OverBudget(
        fmt::format("with all {} layers computed again in the backward pass: {}", order.size(),
                    error.what()),
        std::min({why, error.why, others}), error);
  }
}

TrainingStep with_remat_of_file(const TrainingStep& step, const std::string& text,
                                const std::string& origin) {
  if (!step.chooses_remat) return step;
  std::set<int> layers;
  for (const std::string& plan : sharding_plans(text, origin))
    for (int layer : recomputed_layers(graph_from_plan_json(plan, origin))) layers.insert(layer);
  return with_remat(step, {layers.begin(), layers.end()});
}

}  // namespace alpa
