// src/compile/compiled_step.cc — what a compiled step tells of itself
#include "alpa/compile/compiled_step.h"

#include <nlohmann/json.hpp>

#include "src/plan/evaluation/evaluate.h"
#include "src/report/pipeline_forecast.h"
#include "src/report/plan_text.h"
#include "src/report/report_json.h"
#include "src/report/report_page.h"
#include "src/report/step_trace.h"

namespace alpa {

std::vector<RecomputedLayer> CompiledStep::recomputed() const {
  std::vector<RecomputedLayer> layers;
  for (const StagePlan& stage : plan.stages)
    layers.insert(layers.end(), stage.plan.recomputed.begin(), stage.plan.recomputed.end());
  return layers;
}

std::map<std::string, Traffic> CompiledStep::traffic() const { return spmd::traffic(*program); }

std::string recomputed_text(const CompiledStep& step) {
  return intra_op::recomputed_text(step.recomputed(), remat_layers(step.graph).size());
}

std::string to_string(const CompiledStep& step) { return to_string(step.plan); }

std::string timeline(const CompiledStep& step) {
  return step.plan.schedule ? to_string(pipeline::play(schedule_of(step.plan))) : "";
}

std::string predicted_trace(const CompiledStep& step) {
  return chrome_trace(predicted_trace_of(step.plan));
}

std::string report(const CompiledStep& step, const Cluster& cluster, const std::string& trace) {
  nlohmann::ordered_json numbers = report_json(step.plan, cluster, step.memory_bytes);
  if (!trace.empty()) add_trace(numbers, trace, "of the step");
  return report_page(numbers);
}

std::string explain(const CompiledStep& step, const Cluster& cluster, Detail detail) {
  return explain(step.plan, cost::CostModel::of(cluster), detail, step.memory_bytes);
}

}  // namespace alpa
