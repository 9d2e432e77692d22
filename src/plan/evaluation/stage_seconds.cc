// src/plan/evaluation/stage_seconds.cc — what the parts of a plan take, per region of the step
#include "src/plan/evaluation/stage_seconds.h"

#include <algorithm>

#include "src/ir/op_def.h"
#include "src/ops/all_ops.h"
#include "src/plan/evaluation/evaluate.h"

namespace alpa {
namespace {

/// Per node, whether what other stages wait for depends on it.
std::vector<bool> needed_outside(const Graph& graph) {
  std::vector<bool> wanted(graph.values.size(), false), needed(graph.nodes.size(), false);
  for (const Output& output : graph.outputs) wanted[output.value] = true;
  for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
    for (int result : graph.nodes[n].results) needed[n] = needed[n] || wanted[result];
    if (needed[n])
      for (int value : graph.nodes[n].operands) wanted[value] = true;
  }
  return needed;
}

/// Per node, whether it only prepares gradients for the update: elementwise, in the backward pass,
/// read by such nodes and by the update alone.
std::vector<bool> prepares_update(const Graph& graph) {
  std::vector<bool> read_otherwise(graph.values.size(), false), prepares(graph.nodes.size(), false);
  for (const Output& output : graph.outputs) read_otherwise[output.value] = true;
  for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
    const Node& node = graph.nodes[n];
    prepares[n] = node.region == Region::backward && elementwise_code(node) >= 0;
    for (int result : node.results) prepares[n] = prepares[n] && !read_otherwise[result];
    if (!prepares[n] && node.region != Region::apply)
      for (int value : node.operands) read_otherwise[value] = true;
  }
  return prepares;
}

/// A run takes at least as long as the host launches its operators.
void at_least_launched(const Graph& graph, const SoftwareModel& software, StageSeconds& seconds) {
  if (software.operator_seconds <= 0) return;
  const StageSeconds launched = launched_seconds(graph, software);
  const double grown = std::max(1.0, launched.backward / std::max(seconds.backward, 1e-12));
  seconds.forward = std::max(seconds.forward, launched.forward);
  seconds.backward = std::max(seconds.backward, launched.backward);
  seconds.weights *= grown;
}

/// Reductions of gradients behind the last backward run, which they may prolong.
void overlap(double gradients, const SoftwareModel& software, StageSeconds& seconds) {
  seconds.apply += std::max(0.0, software.gradient_overlap * gradients - seconds.backward);
}

}  // namespace

StageSeconds launched_seconds(const Graph& graph, const SoftwareModel& software) {
  StageSeconds seconds;
  for (const Node& node : graph.nodes) {
    if (node.op->work == Work::free || node.operands.empty()) continue;
    if (node.region == Region::forward) seconds.forward += software.operator_seconds;
    if (node.region == Region::backward) seconds.backward += software.operator_seconds;
  }
  return seconds;
}

StageSeconds stage_seconds(const ShardingPlan& plan, const Graph& graph,
                           const cost::CostModel& model) {
  const intra_op::GraphFacts facts(graph);
  const intra_op::PartSeconds parts = intra_op::part_seconds(plan, facts, model);
  const std::vector<bool> needed = needed_outside(graph);
  const std::vector<bool> prepares = prepares_update(graph);
  StageSeconds seconds;
  double gradients = 0;  // reductions between the backward pass and the update
  const auto add = [&](Region region, bool weights, double of_step) {
    if (region == Region::apply) {
      seconds.apply += of_step;
      return;
    }
    const double of_run = of_step / graph.num_micro_batches;
    (region == Region::forward ? seconds.forward : seconds.backward) += of_run;
    if (region == Region::backward && weights) seconds.weights += of_run;
  };
  for (std::size_t n = 0; n < parts.nodes.size(); ++n)
    add(graph.nodes[n].region, !needed[n], parts.nodes[n]);
  for (std::size_t r = 0; r < parts.reshards.size(); ++r) {
    const UseId first = plan.reshards[r].uses.front();
    const Region region = region_of_use(graph, first);
    const bool late = first.kind == UseKind::node && prepares[first.index];
    const Region made = graph.producer(plan.reshards[r].value).region;
    const bool of_gradients = model.software.gradient_overlap > 0 &&
                              (late || (region == Region::apply && made != Region::apply));
    if (plan.reshards[r].once)
      seconds.apply += parts.reshards[r];
    else if (of_gradients)
      gradients += parts.reshards[r];
    else
      add(region, first.kind != UseKind::node || !needed[first.index], parts.reshards[r]);
  }
  at_least_launched(graph, model.software, seconds);
  overlap(gradients, model.software, seconds);
  return seconds;
}

double run_seconds(const StageSeconds& stage, const pipeline::RegionRun& run) {
  if (run.region == Region::apply) return stage.apply;
  if (run.region == Region::forward) return stage.forward;
  if (run.part == pipeline::GradientPart::weights) return stage.weights;
  const bool whole = run.part == pipeline::GradientPart::all;
  return whole ? stage.backward : stage.backward - stage.weights;
}

PlayedSeconds played_seconds(ScheduleKind kind, int micro_batches) {
  return [=](const std::vector<StageSeconds>& stages, const std::vector<double>& transfers) {
    const auto schedule =
        pipeline::make_schedule(kind, static_cast<int>(stages.size()), micro_batches);
    return pipeline::play(schedule,
                          {[&](int stage, const pipeline::RegionRun& run) {
                             return run_seconds(stages[stage], run);
                           },
                           [&](int from, int to) { return transfers[std::min(from, to)] / 2; }})
        .clocks;
  };
}

}  // namespace alpa
