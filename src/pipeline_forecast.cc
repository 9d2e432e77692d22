// src/pipeline_forecast.cc — what is predicted of a pipelined step: its transfers and its times
#include "pipeline_forecast.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "src/runtime/executor.h"
#include "src/spmd/program.h"

namespace alpa {
namespace {

/// Parts of the devices: stages on the same one repeat it in order.
int num_parts(const std::vector<StagePlan>& stages) {
  int parts = 1;
  while (parts < static_cast<int>(stages.size()) &&
         stages[parts].plan.mesh.devices() != stages[0].plan.mesh.devices())
    ++parts;
  return parts;
}

/// Seconds of a run, without those of transfers.
double seconds_of(const StageSeconds& seconds, const pipeline::RegionRun& run) {
  if (run.region == Region::apply) return seconds.apply;
  if (run.region == Region::forward) return seconds.forward;
  if (run.part == pipeline::GradientPart::weights) return seconds.weights;
  const bool whole = run.part == pipeline::GradientPart::all;
  return whole ? seconds.backward : seconds.backward - seconds.weights;
}

}  // namespace

pipeline::PipelineSchedule schedule_of(const CompiledStep& step, int at_once) {
  if (step.stages.empty()) return {};
  if (step.lowered && !step.lowered->schedule.empty()) return step.lowered->schedule;
  const int parts = num_parts(step.stages);
  const int per_part = static_cast<int>(step.stages.size()) / parts;
  const auto has_gradients =
      std::any_of(step.graph.nodes.begin(), step.graph.nodes.end(),
                  [](const Node& node) { return node.region == Region::backward; });
  const ScheduleKind kind = has_gradients || per_part > 1 ? step.schedule : ScheduleKind::inference;
  return pipeline::make_schedule(kind, parts, step.graph.num_micro_batches, per_part, at_once);
}

std::vector<StageTransfer> transfers_of(const spmd::SpmdProgram& program, const Cluster& cluster) {
  std::map<std::tuple<int, int, bool>, StageTransfer> transfers;
  for (int n = 0; n < static_cast<int>(program.graph.nodes.size()); ++n) {
    const Node& node = program.graph.nodes[n];
    if (!spmd::is_transfer(node)) continue;
    const cost::PlannedTransfer planned = planned_transfer(program, n, cluster);
    const int source = program.mesh_index(node.operands[0]),
              target = program.mesh_index(node.results[0]);
    const bool once = node.region == Region::apply;
    StageTransfer& transfer = transfers[{source, target, once}];
    transfer.from = source, transfer.to = target, transfer.once = once;
    ++transfer.tensors;
    transfer.bytes += planned.cost.bytes;
    transfer.seconds += planned.cost.seconds;
    transfer.strategies.emplace(name_of(planned.strategy));
  }
  std::vector<StageTransfer> result;
  for (const auto& [key, transfer] : transfers) result.push_back(transfer);
  return result;
}

pipeline::Timeline forecast(const CompiledStep& step, int at_once) {
  std::map<std::pair<int, int>, double> transfers;
  std::vector<double> once(step.stages.size(), 0);
  for (const StageTransfer& t : step.transfers)
    (t.once ? once[t.to] : transfers[{t.from, t.to}]) += t.seconds;
  const pipeline::PipelineSchedule schedule = schedule_of(step, at_once);
  const int parts = static_cast<int>(schedule.size());
  const auto run_seconds = [&](int stage, const pipeline::RegionRun& run) {
    if (run.region != Region::apply) return seconds_of(step.stages[stage].seconds, run);
    double seconds = 0;  // apply runs once on each part
    for (std::size_t s = stage; s < step.stages.size(); s += parts)
      seconds += step.stages[s].seconds.apply + once[s];
    return seconds;
  };
  return pipeline::play(schedule, {run_seconds, [&](int from, int to) {
                                     const auto found = transfers.find({from, to});
                                     return found == transfers.end() ? 0 : found->second;
                                   }});
}

}  // namespace alpa
