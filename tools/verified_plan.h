#pragma once
/// What is checked of a plan file without running it.
#include <optional>
#include <string>

#include "alpa/compile/compiled_step.h"
#include "alpa/mesh/cluster.h"

namespace tools {

/// A plan file, and what it is checked against.
struct PlanToVerify {
  std::string text, path;
  std::optional<alpa::Graph> graph = {};  ///< of the step it is for; default: what the file tells
  alpa::Cluster cluster = {};
  std::optional<std::int64_t> budget = {};  ///< bytes of a device; default: those of the cluster
};

/// The plan with the programs of all devices. Throws Error that names what is wrong unless the plan
/// follows its graph's rules on its meshes; stages get what they read; it was made for this graph
/// and has the seconds it tells; every pass keeps its invariants; devices do not wait for each
/// other in a circle; and each keeps the budget.
alpa::CompiledStep verified(const PlanToVerify& plan);

}  // namespace tools
