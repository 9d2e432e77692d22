#pragma once
/// Plans a step: chooses the number of micro-batches, the rematerialised layers and the plan, or
/// takes a plan from a file.
#include <functional>
#include <string>

#include "alpa/train/training_step.h"
#include "fit_budget.h"
#include "pass_log.h"
#include "src/base/timing.h"
#include "src/plan/cost/cost_model.h"

namespace alpa {

/// A step to be planned, and how its plans are lowered. Members must outlive the search.
struct PlanRequest {
  const TrainingStep& step;
  const MethodOptions& method;
  const Cluster& cluster;
  const PassLog& log;
  /// `memory_bytes` of the result is the exact peak of a device.
  std::function<CompiledStep(const Graph& graph, Plan plan)> lower;
  std::int64_t budget = memory_budget(method, cluster);  ///< bytes of a device
  cost::CostModel model = cost::CostModel::of(cluster);
};

/// The plan with the least predicted seconds that fits the memory budget. Throws Error if there is
/// none.
CompiledStep search_plan(const PlanRequest& request);

/// Throws Error naming `path` unless the stages' meshes together are the devices of the cluster.
/// Stages have the same devices, or share none. A plan of one device may call itself serial.
void check_devices(const Plan& plan, const Cluster& cluster, const std::string& path);

/// The plan in a file with this text. Throws Error naming `path` if the text is malformed, was made
/// for another step or cluster, or exceeds the memory budget as a searched plan may not.
CompiledStep plan_from_text(const PlanRequest& request, const std::string& text,
                            const std::string& path);

}  // namespace alpa
