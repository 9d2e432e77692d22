#pragma once
/// Plans kept on disk, by everything that they depend on.
#include <optional>
#include <string>

#include "alpa/intra_op/plan.h"
#include "method_options.h"

namespace alpa {

/// What the plan of `graph` depends on, as text: the version of the library, the graph, the
/// cluster, the devices' threads, and the options that a search looks at.
std::string planning_key(const Graph& graph, const MethodOptions& method, const Cluster& cluster);

/// A folder with a file per plan. A file holds its whole key, so that no other plan is ever taken
/// for it.
class PlanCache {
 public:
  /// Empty: keeps nothing.
  explicit PlanCache(std::string folder) : folder_(std::move(folder)) {}

  /// Text of the plan, as `load_plan` reads it; none if there is no such file, or one that is
  /// damaged or has another key.
  std::optional<std::string> find(const std::string& key) const;
  /// Throws Error if the file cannot be written.
  void keep(const std::string& key, const std::string& plan) const;

 private:
  std::string path_of(const std::string& key) const;
  std::string folder_;
};

}  // namespace alpa
