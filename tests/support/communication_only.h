#pragma once
/// The cost model of published objectives.
#include "src/plan/cost/cost_model.h"

namespace alpa::testing {

/// Communication only: infinitely fast devices, α and β of the mesh.
inline cost::CostModel communication_only(const cost::CollectiveOptions& options) {
  cost::CostModel model;
  model.reshard.collectives = options;
  return model;
}

}  // namespace alpa::testing
