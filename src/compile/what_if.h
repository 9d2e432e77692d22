#pragma once
/// Questions to a plan: what the best plan takes under another condition. Stages keep their layers
/// and devices; each is planned by itself, as the planner does with given stages.
#include <cstdint>
#include <optional>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"
#include "plan_operator.h"

namespace alpa {

/// A plan with its predicted seconds, and bytes of a device.
struct CountedPlan {
  Plan plan;
  /// Values as they live, without padding, scratch and gaps between buffers.
  std::int64_t memory_bytes = 0;
};

/// `plan` priced and counted for `cluster`. Throws Error if it was planned at other prices.
CountedPlan counted_plan(Plan plan, const Cluster& cluster);

/// A condition under which to plan again. What is not set stays.
struct PlanChange {
  /// This operator leaves its first result in this spec. The method does not restrict it further.
  struct Set {
    PlanOperator op;
    ShardingSpec spec;
  };
  std::optional<Set> set = {};
  std::optional<std::vector<int>> mesh_shape = {};  ///< of every stage; empty: the best of all
  std::optional<std::int64_t> budget = {};  ///< bytes of a device; default: those of the cluster
  bool is_other_cluster = false;            ///< links differ from those of the plan
  double solver_seconds = 60;

  /// Every stage is planned again; otherwise only that of `set` is.
  bool concerns_all() const { return mesh_shape || budget || is_other_cluster; }
};

/// The plan with its strategies on the devices of `cluster`, priced for it.
CountedPlan kept_plan(const Plan& plan, const Cluster& cluster);

/// The best plan under a change, by the method of `plan`, for `cluster`: found by the search that
/// the method makes, or `plan` as it is, where the change allows it and it is better. Throws Error
/// if there is none, and for a plan that cannot be asked.
CountedPlan what_if(const Plan& plan, const Cluster& cluster, const PlanChange& change);

}  // namespace alpa
