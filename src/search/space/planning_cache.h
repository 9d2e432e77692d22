#pragma once
/// Results of planning that later calls reuse: rules; strategies and prices per mesh and cost
/// model; tables of layers by hash.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "src/plan/cost/cost_model.h"
#include "src/search/space/restrictions.h"

namespace alpa::intra_op {

struct LayerTable;

/// A strategy that no other of equal specs is cheaper than.
struct PricedStrategy {
  Strategy strategy;
  double seconds = 0;               ///< of one run
  std::vector<ShardingSpec> specs;  ///< of operands, then results
};

/// Facts about one mesh under one cost model. They are added, never changed or removed.
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

/// A cache for callers that plan several graphs, or parts of one, with common layers; passed to
/// `AutoSharding`, `auto_shard` and `plan_by_layers`. It does not change plans. It grows with new
/// facts of each graph and does not hold the graphs themselves. Thread rule: one thread at a time.
struct PlanningCache {
  PlanningCache() = default;
  PlanningCache(const PlanningCache&) = delete;
  PlanningCache& operator=(const PlanningCache&) = delete;

  /// The facts of this mesh and model; new ones if nothing is known of them. Valid as long as the
  /// cache.
  MeshFacts& of(const DeviceMesh& mesh, const cost::CostModel& model) {
    const auto known = std::find_if(meshes.begin(), meshes.end(), [&](const MeshFacts& f) {
      return f.mesh == mesh && f.model == model;
    });
    return known != meshes.end() ? *known : meshes.emplace_back(mesh, model, rules);
  }

  KnownRules rules;
  std::deque<MeshFacts> meshes;
};

}  // namespace alpa::intra_op
