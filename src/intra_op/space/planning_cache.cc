// Caches facts by mesh and cost model
#include "src/intra_op/space/planning_cache.h"

#include <algorithm>

#include "src/intra_op/space/planning_facts.h"

namespace alpa::intra_op {

PlanningCache::PlanningCache() : facts_(std::make_unique<Facts>()) {}

PlanningCache::~PlanningCache() = default;

MeshFacts& PlanningCache::Facts::of(const DeviceMesh& mesh, const cost::CostModel& model) {
  const auto known = std::find_if(meshes.begin(), meshes.end(), [&](const MeshFacts& f) {
    return f.mesh == mesh && f.model == model;
  });
  if (known != meshes.end()) return *known;
  return meshes.emplace_back(mesh, model, rules);
}

}  // namespace alpa::intra_op
