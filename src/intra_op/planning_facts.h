#pragma once
/// The content of a PlanningCache. Facts are added, never changed or removed, and stay where they are. One thread
/// at a time.
#include <deque>

#include "alpa/cost/cost_model.h"
#include "alpa/intra_op/planning_cache.h"

namespace alpa {

/// What is known of one mesh under one cost model.
struct MeshFacts {
  MeshFacts(const DeviceMesh& m, const CostModel& c) : mesh(m), model(c), prices(m, c.reshard) {}

  const DeviceMesh mesh;
  const CostModel model;
  ReshardPrices prices;
};

struct PlanningCache::Facts {
  std::deque<MeshFacts> meshes;

  /// Those of this mesh and model; new ones if nothing is known of them. Stay valid as long as the cache.
  MeshFacts& of(const DeviceMesh& mesh, const CostModel& model);
};

}  // namespace alpa
