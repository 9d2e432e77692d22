#pragma once
/// Plans kept on disk, by everything that they depend on.
#include <optional>
#include <string>
#include <string_view>

#include "alpa/plan/sharding_plan.h"
#include "method_options.h"

namespace alpa {

/// All that the plan of `graph` depends on, as text: the version of the library, the graph, the
/// cluster, the devices' threads, and the options that a search looks at.
std::string planning_key(const Graph& graph, const MethodOptions& method, const Cluster& cluster);

/// The options of a method that a plan depends on, as text: a line each.
std::string options_text(const MethodOptions& method);

/// A folder with a file per plan. A file holds its whole key, so that no other plan is ever taken
/// for it.
class PlanCache {
 public:
  /// Empty: keeps nothing.
  explicit PlanCache(std::string folder) : folder_(std::move(folder)) {}

  /// Text of the plan, as `load_plan` reads it. None if there is no such file; none and a line on
  /// stderr if it can't be read, is damaged or has another key.
  std::optional<std::string> find(const std::string& key) const;
  /// Replaces what is in the plan's place, also a link, a pipe or a device. If that fails, a line
  /// on stderr says why.
  void keep(const std::string& key, const std::string& plan) const;

  /// The plan's file.
  std::string path_of(const std::string& key) const;
  /// Says on stderr why a kept plan is not taken.
  static void tell_unusable(std::string_view why);

 private:
  std::string folder_;
};

}  // namespace alpa
