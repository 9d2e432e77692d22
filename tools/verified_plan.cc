// tools/verified_plan.cc — runs all verifiers of the compiler on a plan file
#include "tools/verified_plan.h"

#include <cmath>

#include "alpa/base/text.h"
#include "src/compile/plan_file.h"
#include "src/compile/search.h"
#include "src/inter_op/whole_graph.h"
#include "src/lower/rank_classes.h"
#include "src/parallelize.h"

namespace tools {

using namespace alpa;

namespace {

/// Files hold seconds in full; sums may be in another order.
constexpr double kSameSeconds = 1e-9;

/// What the invariants of passes say is about the plan here, which a user gives.
template <class Call>
auto as_mistakes(const std::string& title, const Call& call) {
  try {
    return call();
  } catch (const Bug& bug) {
    fail("{}: {}", title, bug.what());
  }
}

Graph joined_graph(const Plan& plan, const std::string& path) {
  try {
    return whole_graph(plan.stages);
  } catch (const Error& error) {
    fail("plan {}: {}", path, error.what());
  }
}

/// Graph and plan: of the step that is given, or that the file tells.
CompiledStep read_plan(const PlanToVerify& plan, const CompiledStep& told) {
  std::optional<Graph> graph = plan.graph;
  if (!graph && told.plan.stages.size() == 1) graph = told.plan.stages.front().graph;
  if (!graph) return {.graph = joined_graph(told.plan, plan.path), .plan = told.plan};
  const TrainingStep step{
      .inputs = {}, .trace = [&](const TraceOptions&) { return *graph; }, .scalars = {}};
  return plan_from_json(plan.text, step, graph->num_micro_batches, plan.path);
}

void require_seconds(const std::string& title, const std::string& what, double told, double found) {
  require(
      std::abs(told - found) <= kSameSeconds * std::max(told, found),
      "{}: {} takes {:.6g} s by the file, but {:.6g} s on this cluster; name the cluster it was "
      "planned for with --cluster, or plan again",
      title, what, told, found);
}

/// The links of its meshes are in the file, so that those of other links have other seconds, too.
void check_seconds(const CompiledStep& told, const CompiledStep& found, const Cluster& cluster,
                   const std::string& title) {
  const cost::CostModel model = cost::CostModel::of(cluster);
  for (std::size_t s = 0; s < told.plan.stages.size(); ++s) {
    const StagePlan& stage = told.plan.stages[s];
    require_seconds(title, fmt::format("stage {}", s), stage.plan.cost.objective_seconds,
                    evaluate(stage.plan, stage.graph, model).objective_seconds);
  }
  require_seconds(title, "a step", told.plan.cost.objective_seconds,
                  found.plan.cost.objective_seconds);
}

}  // namespace

CompiledStep verified(const PlanToVerify& plan) {
  const std::string title = "plan " + plan.path;
  const CompiledStep told = plan_for_readers(plan.text, plan.path);
  CompiledStep read = as_mistakes(title, [&] { return read_plan(plan, told); });
  check_devices(read.plan, plan.cluster, plan.path);
  const std::int64_t budget = plan.budget.value_or(plan.cluster.device.memory_bytes);
  const ExecutorOptions options;
  const PassLog log("");
  CompiledStep lowered = as_mistakes(title, [&] {
    verify(read.graph);
    CompiledStep step = run_passes(read.graph, read.plan, {plan.cluster, options, budget, log});
    lower::verify_schedules(lower::programs_of_all(*step.program, step.lowered->firsts),
                            *step.program);
    return step;
  });
  check_seconds(told, lowered, plan.cluster, title);
  require(budget == 0 || lowered.memory_bytes <= budget,
          "{}: it needs {} bytes per device, {} more than the {} that a device may use; plan again "
          "within them, or raise --budget",
          title, lowered.memory_bytes, lowered.memory_bytes - budget, budget);
  return lowered;
}

}  // namespace tools
