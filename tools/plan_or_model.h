#pragma once
/// What `alpa explain` and `alpa report` are given: a plan, or a model that a plan is made for.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alpa/compile/compiled_step.h"
#include "alpa/mesh/cluster.h"
#include "alpa/train/training_step.h"
#include "tools/common/flag_table.h"

namespace tools {

struct PlanOrModelFlags {
  std::string file, cluster, method = "shard", mesh = "auto";
  std::optional<int> devices;
  double solver_seconds = 60;
  std::set<std::string> given = {};
};

/// The file, and the flags about devices and about planning a model.
std::vector<cli::Flag> file_rows(PlanOrModelFlags& flags);
std::vector<cli::Flag> planning_rows(PlanOrModelFlags& flags);

/// The text of the file, and whether it is a model. Throws Error for flags without effect on it.
struct PlanOrModel {
  std::string text;
  bool is_model = false;
};
PlanOrModel read_plan_or_model(const PlanOrModelFlags& flags);

/// The graph that `text` of the file `path` holds. Throws Error that names the file if it is none.
alpa::Graph graph_of(const std::string& text, const std::string& path);
/// A training step that is this graph.
alpa::TrainingStep step_of(const alpa::Graph& graph);

/// The plan in the file, for readers.
alpa::CompiledStep read_plan(const PlanOrModelFlags& flags);
/// Different devices of all stages.
int devices_of(const alpa::Plan& plan);

/// The cluster that is given, or so many devices of this machine.
alpa::Cluster cluster_of(const PlanOrModelFlags& flags, int devices);
/// That of a plan for so many devices. Throws Error if the cluster has fewer.
alpa::Cluster cluster_of_plan(const PlanOrModelFlags& flags, int devices);
/// That of a model.
alpa::Cluster cluster_of_model(const PlanOrModelFlags& flags);

/// The plan that is made of a model with this text.
alpa::CompiledStep planned_model(const PlanOrModelFlags& flags, const std::string& text,
                                 const alpa::Cluster& cluster);

}  // namespace tools
