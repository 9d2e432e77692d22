#pragma once
/// Results of planning that later calls reuse: rules; strategies and prices per mesh and cost
/// model; tables of layers by hash.
#include <memory>

namespace alpa::intra_op {

/// A cache for callers that plan several graphs, or parts of one, with common layers; passed to
/// `AutoSharding`, `auto_shard` and `plan_by_layers`. It does not change plans. It grows with new
/// facts of each graph and does not hold the graphs themselves. Thread rule: one thread at a time.
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

}  // namespace alpa::intra_op
