#pragma once
/// Chooses by stage whether layers are computed again: the first stages of a pipeline keep the most
/// micro-batches in flight, the last ones have room to keep what their layers compute.
#include <cstdint>
#include <memory>
#include <vector>

#include "stage_planner.h"
#include "step_variant.h"

namespace alpa {

/// Stages some of which compute their layers again. `planner` refers to the other members.
struct RematByStage {
  TrainingStep step;
  MethodOptions method;  ///< with these stages
  Graph graph;
  std::shared_ptr<StagePlanner> planner;  ///< gives the plans that the search made
  double seconds = 0;                     ///< predicted for a step
};

/// A variant of a step that computes all its layers again, or none, and its search for stages.
struct VariantSearch {
  const TrainingStep& step;  ///< leaves the choice to the planner
  const StepVariant& variant;
  const MethodOptions& method;
  const Graph& graph;
  StageSearch& search;
};

/// Searches on for stages of which some compute `layers` again and others do not: for so many
/// seconds of work, and on the method's clock. Null: none are found that take less than the best
/// stages of the variant. Throws Error if a step cannot be traced with the variant's layers.
std::unique_ptr<RematByStage> remat_by_stage(const VariantSearch& of,
                                             const std::vector<int>& layers, const Cluster& cluster,
                                             std::int64_t budget, double work_seconds);

}  // namespace alpa
