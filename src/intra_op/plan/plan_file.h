#pragma once
/// Reading plan files, with errors that name the place.
#include <climits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/intra_op/plan.h"
#include "src/base/json.h"

namespace alpa::intra_op {

/// A place in a plan file, for messages and for typed access.
class PlanFilePlace {
 public:
  PlanFilePlace(const nlohmann::json& json, const std::string& origin, std::string path)
      : json_(json), origin_(origin), path_(std::move(path)) {}

  PlanFilePlace at(const char* key) const {
    const auto entry = json_.is_object() ? json_.find(key) : json_.end();
    if (!json_.is_object() || entry == json_.end())
      fail("plan {}: {}{} is missing", origin_, path_.empty() ? "" : path_ + ".", key);
    return {*entry, origin_, path_.empty() ? key : path_ + "." + key};
  }
  bool contains(const char* key) const { return json_.is_object() && json_.contains(key); }

  std::vector<PlanFilePlace> items() const {
    if (!json_.is_array()) bad("a list");
    std::vector<PlanFilePlace> result;
    for (const nlohmann::json& item : json_)
      result.emplace_back(item, origin_, fmt::format("{}[{}]", path_, result.size()));
    return result;
  }
  std::string text() const {
    if (!json_.is_string()) bad("a text");
    return json_.get<std::string>();
  }
  double number() const {
    if (!json_.is_number()) bad("a number");
    return json_.get<double>();
  }
  int integer() const {
    // JSON of a larger unsigned number would wrap around when compared with a signed one.
    const bool fits = json_.is_number_unsigned()
                          ? json_.get<std::uint64_t>() <= INT_MAX
                          : json_.is_number_integer() && json_.get<std::int64_t>() >= INT_MIN;
    if (!fits) bad("a whole number of 32 bits");
    return json_.get<int>();
  }
  std::vector<int> integers() const {
    std::vector<int> result;
    for (const PlanFilePlace& item : items()) result.push_back(item.integer());
    return result;
  }
  /// Returns parse(text); adds the position to its error.
  template <class Parse>
  auto parsed(Parse parse) const {
    const std::string given = text();
    return checked([&] { return parse(given); });
  }
  /// Returns make(); adds the position to its error.
  template <class Make>
  auto checked(Make make) const {
    try {
      return make();
    } catch (const Error& error) {
      fail("plan {}: {}: {}", origin_, path_, excerpt(error.what(), 300));
    }
  }
  [[noreturn]] void refuse(const std::string& mistake) const {
    fail("plan {}: {}: {}", origin_, path_, mistake);
  }
  [[noreturn]] void bad(std::string_view expected) const {
    fail("plan {}: {}: found {}, expected {}", origin_, path_, shown(json_), expected);
  }

  const std::string& origin() const { return origin_; }
  /// The text of what is at this place.
  std::string dump() const { return json_.dump(); }

 private:
  const nlohmann::json& json_;
  const std::string& origin_;
  std::string path_;
};

/// The fields of a plan's cost and of its statistics, by their names in files.
inline constexpr std::pair<const char*, double PlanCost::*> kCostFields[] = {
    {"objective_seconds", &PlanCost::objective_seconds},
    {"compute_seconds", &PlanCost::compute_seconds},
    {"communication_seconds", &PlanCost::communication_seconds},
    {"lower_bound_seconds", &PlanCost::lower_bound_seconds}};
inline constexpr std::pair<const char*, int PlannerStatistics::*> kStatisticsFields[] = {
    {"nodes", &PlannerStatistics::nodes},
    {"strategies", &PlannerStatistics::strategies},
    {"variables", &PlannerStatistics::variables},
    {"constraints", &PlannerStatistics::constraints}};

/// How many uses of this kind the graph has.
int count_of(const Graph& graph, UseKind kind);

/// The structural hash of a graph, as plan files have it.
std::string hash_text(const Graph& graph);

/// Throws Error unless a plan file's "graph" is the hash of this one.
void check_graph(const PlanFilePlace& file, const Graph& graph);

}  // namespace alpa::intra_op
