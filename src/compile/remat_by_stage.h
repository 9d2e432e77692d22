#pragma once
/// Chooses by stage whether layers are computed again: the first stages of a pipeline keep the most
/// micro-batches in flight, the last ones have room to keep what their layers compute.
#include <memory>
#include <optional>

#include "stage_planner.h"
#include "step_variant.h"

namespace alpa {

/// Stages some of which compute their layers again. `planner` refers to the others.
struct RematByStage {
  StepVariant variant;
  MethodOptions method;  ///< with these stages
  Graph graph;
  std::shared_ptr<StagePlanner> planner;  ///< gives the plans that the search made
};

/// A variant of `step` that computes all its layers again, with its search for stages.
struct RecomputingSearch {
  const TrainingStep& step;  ///< leaves the choice to the planner
  int num_micro_batches = 1;
  const MethodOptions& method;
  const Graph& graph;  ///< of the variant
  StageSearch& search;
};

/// Goes on with that search for so many seconds of work, and the method's clock, where every stage
/// may keep what its layers compute instead. Null: the best stages compute all layers again. Throws
/// Error if a step cannot be traced with the variant's layers.
std::unique_ptr<RematByStage> remat_by_stage(const RecomputingSearch& all, const Cluster& cluster,
                                             std::int64_t budget, double work_seconds);

}  // namespace alpa
