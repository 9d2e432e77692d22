// src/report/pipeline_forecast.cc — what is predicted of a plan: its transfers and its times
#include "pipeline_forecast.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "src/plan/evaluation/evaluate.h"
#include "src/plan/evaluation/stage_seconds.h"

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

bool has_gradients(const StagePlan& stage) {
  return std::any_of(stage.graph.nodes.begin(), stage.graph.nodes.end(),
                     [](const Node& node) { return node.region == Region::backward; });
}

pipeline::PipelineSchedule schedule_of(const Plan& plan, ScheduleKind kind) {
  const int parts = num_parts(plan.stages);
  const int per_part = static_cast<int>(plan.stages.size()) / parts;
  if (per_part == 1 && std::none_of(plan.stages.begin(), plan.stages.end(), has_gradients))
    kind = ScheduleKind::inference;
  return pipeline::make_schedule(kind, parts, plan.stages.front().graph.num_micro_batches, per_part,
                                 plan.at_once);
}

/// Transfers between the stages of the joined `program`, by pair of stages.
std::vector<StageTransfer> transfers_of(const spmd::SpmdProgram& program, const Cluster& cluster) {
  const std::vector<bool> before = spmd::once_before(program);
  std::map<std::tuple<int, int, bool>, StageTransfer> transfers;
  cost::TransferPrices prices(cluster);
  for (int n = 0; n < static_cast<int>(program.graph.nodes.size()); ++n) {
    const Node& node = program.graph.nodes[n];
    if (!spmd::is_transfer(node)) continue;
    const cost::PlannedTransfer planned = planned_transfer(program, n, prices);
    const int source = program.mesh_index(node.operands[0]),
              target = program.mesh_index(node.results[0]);
    const bool once = before[n] || node.region == Region::apply;
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

}  // namespace

pipeline::PipelineSchedule schedule_of(const Plan& plan) {
  return plan.schedule ? schedule_of(plan, *plan.schedule) : pipeline::PipelineSchedule{};
}

pipeline::Timeline forecast(const Plan& plan) {
  std::map<std::pair<int, int>, double> transfers;
  std::vector<double> once(plan.stages.size(), 0);
  for (const StageTransfer& t : plan.transfers)
    (t.once ? once[t.to] : transfers[{t.from, t.to}]) += t.seconds;
  const pipeline::PipelineSchedule schedule =
      schedule_of(plan, plan.schedule.value_or(ScheduleKind::one_f_one_b));
  const int parts = static_cast<int>(schedule.size());
  const auto seconds_of = [&](int stage, const pipeline::RegionRun& run) {
    if (run.region != Region::apply) return run_seconds(plan.stages[stage].seconds, run);
    double seconds = 0;  // apply runs once on each part
    for (std::size_t s = stage; s < plan.stages.size(); s += parts)
      seconds += plan.stages[s].seconds.apply + once[s];
    return seconds;
  };
  return pipeline::play(schedule, {seconds_of, [&](int from, int to) {
                                     const auto found = transfers.find({from, to});
                                     return found == transfers.end() ? 0 : found->second;
                                   }});
}

void set_forecast(std::vector<StagePlan>& stages, const cost::CostModel& model) {
  for (StagePlan& stage : stages) {
    stage.plan.recomputed = intra_op::price_recomputed(stage.plan, stage.graph, model);
    stage.seconds = stage_seconds(stage.plan, stage.graph, model);
  }
}

void set_forecast(Plan& plan, const spmd::SpmdProgram& program, const Cluster& cluster) {
  plan.transfers = transfers_of(program, cluster);
  if (!plan.schedule) return;
  const pipeline::Timeline timeline = forecast(plan);
  plan.cost.objective_seconds = timeline.clocks;
  plan.bubble = timeline.bubble();
}

}  // namespace alpa
