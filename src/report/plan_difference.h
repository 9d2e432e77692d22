#pragma once
/// Difference between two plans, as text.
#include <cstdint>
#include <functional>
#include <string>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"

namespace alpa {

/// A plan, and the peak of a device under it.
struct ComparedPlan {
  const Plan& plan;
  std::int64_t memory_bytes = 0;
  const Cluster& cluster;  ///< whose devices it is priced for
};

/// "5.0 ms -> 6.0 ms (+1.0 ms, +20.0 %)", in the words of `text`.
std::string change_text(double before, double after,
                        const std::function<std::string(double)>& text);

/// Two plans side by side: seconds, bytes sent, memory and proof of the whole; layouts of tensors
/// and ways to do operators that differ, by class of layers, with the seconds and bytes of a device
/// that this changes.
std::string difference_text(const ComparedPlan& before, const ComparedPlan& after);

}  // namespace alpa
