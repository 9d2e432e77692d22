// The ranges of the numbers of cluster files: those of docs/cost-model.md, and plans at their ends.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "support/error_text.h"

namespace cluster_range_test {

using namespace alpa;
using namespace alpa::testing;
using Json = nlohmann::json;

namespace {

/// A file with every number that there may be.
const char* const kWhole = R"({
  "num_hosts": 2, "devices_per_host": 2,
  "device": {"memory_bytes": 4000000000, "flops_per_second": {"f32": 1e12},
             "half_rate_size": {"f32": 32}, "peak_flops_per_second": {"f32": 2e12},
             "memory_bytes_per_second": 1e10, "launch_seconds": 1e-6,
             "measured": {"products": {"f64": {"sizes": [64], "flops_per_second": [1e9]}},
                          "loop_bytes": [4096], "loop_bytes_per_second": [1e10]}},
  "within_host": {"alpha_seconds": 1e-6, "bytes_per_second": 1e10,
                  "all_reduce": {"members": [2], "bytes": [4096], "seconds": [1e-5]}},
  "between_hosts": {"alpha_seconds": 1e-5, "beta_seconds_per_byte": 1e-9,
                    "adapters": {"count": 1, "bytes_per_second": 1e9}},
  "software": {"operator_seconds": 1e-6, "gradient_overlap": 1, "attention_passes": 4}})";

struct Row {
  std::string text;  ///< as errors have it
  double least = 0, most = 0;
};

/// The table of docs/cost-model.md, by key.
std::map<std::string, Row> rows_of_page() {
  std::ifstream page(ALPA_SOURCE_DIR "/docs/cost-model.md");
  const std::regex pattern(
      R"(\| `(\w+)` \| ([^|]+) \| ((?:a whole number )?from (\S+) to (\S+)) \|)");
  std::map<std::string, Row> rows;
  std::smatch found;
  for (std::string line; std::getline(page, line);)
    if (std::regex_match(line, found, pattern))
      rows[found[1]] = {found[2].str() + ", " + found[3].str(), std::stod(found[4]),
                        std::stod(found[5])};
  return rows;
}

/// A number of the file: its place as errors name it, and the key that has its range.
struct Place {
  Json::json_pointer pointer;
  std::string path, key;
};

void find_numbers(const Json& json, const Place& at, std::vector<Place>& places) {
  if (json.is_number()) return places.push_back(at);
  for (const auto& [name, value] : json.items()) {
    const bool is_entry = json.is_array(), is_dtype = name == "f32" || name == "f64";
    Place below{at.pointer / name, at.path, is_entry || is_dtype ? at.key : name};
    if (is_entry) below.pointer = at.pointer / std::stoul(name);
    below.path += is_entry ? "[" + name + "]" : (at.path.empty() ? "" : ".") + name;
    find_numbers(value, below, places);
  }
}

std::vector<Place> places_of_numbers() {
  std::vector<Place> places;
  find_numbers(Json::parse(kWhole), Place(), places);
  return places;
}

std::string file_with(const Place& place, double number) {
  Json json = Json::parse(kWhole);
  json[place.pointer] = number;
  return json.dump();
}

}  // namespace

TEST_CASE("a number outside its range is refused with file, key, value, unit and range") {
  const std::map<std::string, Row> rows = rows_of_page();
  std::set<std::string> keys;
  for (const Place& place : places_of_numbers()) {
    CAPTURE(place.path);
    keys.insert(place.key);
    REQUIRE(rows.contains(place.key));
    const Row& row = rows.at(place.key);
    for (const double number :
         {-1.0, row.least - 1, row.least == 0 ? -1e-9 : 0.0, row.most * (1 + 1e-9) + 1, 1e308})
      CHECK(error_of([&] { Cluster::from_json(file_with(place, number), "c.json"); }) ==
            "cluster file c.json: " + place.path + ": found " + Json(number).dump() +
                ", expected " + row.text);
  }
  CHECK(keys.size() == rows.size());
}

TEST_CASE("at both ends of every range a step is planned, or refused for its memory") {
  const TrainingStep step = training_step(
      {{"x", {f32, {32, 16}}}},
      [](const Batch& b) { return mean(square(nn::Dense(16)(relu(nn::Dense(64)(b["x"]))))); },
      optim::Adam{});
  const std::map<std::string, Row> rows = rows_of_page();
  for (const Place& place : places_of_numbers()) {
    if (place.key == "num_hosts" || place.key == "devices_per_host") continue;  // others' test
    const Row& row = rows.at(place.key);
    for (const double number : {row.least, row.most}) {
      CAPTURE(place.path);
      CAPTURE(number);
      const Cluster cluster = Cluster::from_json(file_with(place, number), "c.json");
      for (const Method& method :
           {Method(ShardParallel{}), Method(PipeshardParallel{.layers = AutoLayers{}})}) {
        if (place.key == "memory_bytes" && number == row.least) {
          CHECK_THROWS_AS(plan_only(step, method, cluster), Error);
          continue;
        }
        const double seconds = plan_only(step, method, cluster).plan.cost.objective_seconds;
        CHECK(seconds > 0);
        CHECK(std::isfinite(seconds));
      }
    }
  }
}

}  // namespace cluster_range_test
