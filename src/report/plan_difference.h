#pragma once
/// What two plans do differently.
#include <cstdint>
#include <string>

#include "alpa/inter_op/plan.h"
#include "alpa/mesh/cluster.h"

namespace alpa {

/// A plan, and the exact peak of a device under it.
struct LoweredPlan {
  const Plan& plan;
  std::int64_t memory_bytes = 0;
};

/// Two plans side by side, priced for devices of `cluster`: seconds, memory, communication and
/// stages of the whole; layouts of tensors and ways to do operators that differ, by class of
/// layers, with the seconds and bytes of a device that this changes.
std::string difference_text(const LoweredPlan& before, const LoweredPlan& after,
                            const Cluster& cluster);

}  // namespace alpa
