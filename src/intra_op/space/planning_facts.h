#pragma once
/// The content of a PlanningCache. Facts are added, never changed or removed, and stay where they
/// are. One thread at a time.
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "src/cost/cost_model.h"
#include "src/intra_op/space/planning_cache.h"
#include "src/intra_op/space/restrictions.h"

namespace alpa::intra_op {

struct LayerTable;

/// A strategy that no other of equal specs is cheaper than.
struct PricedStrategy {
  Strategy strategy;
  double seconds = 0;               ///< of one run
  std::vector<ShardingSpec> specs;  ///< of operands, then results
};

/// Facts about one mesh under one cost model.
struct MeshFacts {
  MeshFacts(const DeviceMesh& m, const cost::CostModel& c, KnownRules& r)
      : mesh(m), model(c), rules(r), prices(m, c.reshard) {}

  const DeviceMesh mesh;
  const cost::CostModel model;
  KnownRules& rules;  ///< of all meshes
  cost::ReshardPrices prices;
  /// By number of the rule, what the node does of its loop, and restriction.
  std::map<std::tuple<int, LoopShare, Restriction>, std::vector<PricedStrategy>> strategies;
  std::map<std::string, std::shared_ptr<const LayerTable>> tables;  ///< by `table_key`
};

struct PlanningCache::Facts {
  KnownRules rules;
  std::deque<MeshFacts> meshes;

  /// Those of this mesh and model; new ones if nothing is known of them. Stay
  /// valid as long as the cache.
  MeshFacts& of(const DeviceMesh& mesh, const cost::CostModel& model);
};

}  // namespace alpa::intra_op
