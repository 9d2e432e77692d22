#pragma once
/// Results of planning that later calls reuse: rules; strategies and prices per mesh and cost model; tables
/// of layers by hash.
#include <memory>

namespace alpa {

/// Kept by whoever plans several graphs, or parts of one, that have layers in common; passed to
/// `AutoSharding`, `auto_shard` and `plan_by_layers`. It changes no plan. It grows by what is new in each
/// graph and keeps nothing of the graphs themselves. One thread at a time.
class PlanningCache {
 public:
  PlanningCache();
  ~PlanningCache();
  PlanningCache(const PlanningCache&) = delete;
  PlanningCache& operator=(const PlanningCache&) = delete;

  struct Facts;
  Facts& facts() { return *facts_; }  ///< for the planner

 private:
  std::unique_ptr<Facts> facts_;
};

}  // namespace alpa
