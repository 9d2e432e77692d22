// src/inter_op/stage_seconds.cc — what the parts of a plan take, per region of the step
#include "stage_seconds.h"

#include "src/intra_op/plan/evaluate.h"

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

}  // namespace

StageSeconds stage_seconds(const ShardingPlan& plan, const Graph& graph,
                           const cost::CostModel& model) {
  const intra_op::GraphFacts facts(graph);
  const intra_op::PartSeconds parts = intra_op::part_seconds(plan, facts, model);
  const std::vector<bool> needed = needed_outside(graph);
  StageSeconds seconds;
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
    add(region_of_use(graph, first), first.kind != UseKind::node || !needed[first.index],
        parts.reshards[r]);
  }
  return seconds;
}

}  // namespace alpa
