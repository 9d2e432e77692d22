#pragma once
/// Forecast of a pipelined step: its transfers, and when each stage runs.
#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/schedules/schedule.h"
#include "src/plan/schedules/timeline.h"
#include "src/spmd/program.h"

namespace alpa {

/// The order in which the stages run; empty: one stage runs the micro-batches one after the other.
pipeline::PipelineSchedule schedule_of(const Plan& plan);

/// Sets what is predicted of each stage by itself: its seconds, and what it computes again.
void set_forecast(std::vector<StagePlan>& stages, const cost::CostModel& model);

/// Sets what is predicted of the joined `program` of a plan: transfers, and the seconds and the
/// bubble of a schedule.
void set_forecast(Plan& plan, const spmd::SpmdProgram& program, const Cluster& cluster);

/// The runs of the stages, played with the predicted seconds of stages and transfers.
pipeline::Timeline forecast(const Plan& plan);

}  // namespace alpa
