#pragma once
/// A plan as `alpa plan` prints it: ten lines, a table of methods, or JSON.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/planned_model.h"

namespace plan {

/// The best plan of one method, or why there is none.
struct MethodResult {
  std::string method;
  std::optional<alpa::CompiledStep> planned = {};
  std::string failure = {};     ///< without a plan: "does not fit: needs 21 MiB"
  double planning_seconds = 0;  ///< of all plans that were tried
  std::string tried = {};       ///< "3 of 12 points planned, …"; "": it is not a grid
};

/// A planned model, its cluster and the flags that named them.
struct Subject {
  const PlanFlags& flags;
  const PlannedModel& model;
  const alpa::Cluster& cluster;
};

/// Ten lines: stages, meshes, layouts, memory, seconds, speed and proof.
std::string plan_text(const Subject& subject, const alpa::CompiledStep& planned);

/// Kernels that a step queues on the first device: a line per kind, and their sums.
std::string counts_text(const alpa::CompiledStep& planned, const alpa::Cluster& cluster);

/// "12.5 GiB of 74.5 GiB a device: state 3.1 GiB, …", of the fullest stage.
std::string memory_of_device_text(const Subject& subject, const alpa::CompiledStep& planned);

/// A method's plan as JSON, or why there is none.
nlohmann::ordered_json result_json(const Subject& subject, const MethodResult& result);

/// A line per method; seconds as multiples of those of the first.
std::string methods_text(const Subject& subject, const std::vector<MethodResult>& results);

/// The same as JSON; the first result is the plan itself.
nlohmann::ordered_json report_json(const Subject& subject,
                                   const std::vector<MethodResult>& results);

}  // namespace plan
