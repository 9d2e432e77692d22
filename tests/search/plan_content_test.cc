// Every field of a plan file that is used is checked: one line names file,
// place and what is expected.
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "search/graphs.h"
#include "search/plans.h"
#include "src/search/sharding/auto_shard.h"
#include "support/error_text.h"

namespace plan_content_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Json = nlohmann::ordered_json;

/// ZeRO-3 on two devices: plans with all_reduce, reduce_scatter and all_gather.
struct Sample {
  Graph graph = mlp_graph({.layers = 2, .batch = 8, .width = 4, .num_micro_batches = 2});
  Json plan = Json::parse(to_json(
      intra_op::auto_shard(graph, priced_mesh({2}), cost::CostModel{}, intra_op::zero3_options()),
      graph));

  /// The error of the plan after `change`.
  std::string error(const std::function<void(Json&)>& change) const {
    Json changed = plan;
    change(changed);
    return error_of([&] { plan_from_json(changed.dump(), graph, "p.json"); });
  }

  /// Place of the first step of this kind.
  std::pair<std::size_t, std::size_t> place(const std::string& kind) const {
    const Json& reshards = plan.at("reshards");
    for (std::size_t r = 0; r < reshards.size(); ++r)
      for (std::size_t s = 0; s < reshards[r].at("steps").size(); ++s)
        if (reshards[r]["steps"][s].at("kind") == kind) return {r, s};
    FAIL("no " << kind);
    return {};
  }

  /// The error if `field` of the first step of this kind holds `value`, without the place.
  std::string step_error(const std::string& kind, const char* field, const Json& value) const {
    const auto [r, s] = place(kind);
    const std::string text =
        error([&, r = r, s = s](Json& plan) { plan["reshards"][r]["steps"][s][field] = value; });
    const std::string prefix = fmt::format("plan p.json: reshards[{}].steps[{}].", r, s);
    CHECK(text.substr(0, prefix.size()) == prefix);
    return text.substr(std::min(text.size(), prefix.size()));
  }
};

}  // namespace

TEST_CASE("a plan as written is read") {
  const Sample sample;
  CHECK(sample.error([](Json&) {}) == "no error");
}

TEST_CASE("steps with fields that no step of their kind has") {
  const Sample sample;
  CHECK(sample.step_error("all_gather", "dim", 7) ==
        "dim: found 7; all_gather of a tensor of rank 2 needs a dimension below it");
  CHECK(sample
            .step_error("all_gather", "dim",
                        1 - sample
                                .plan["reshards"][sample.place("all_gather").first]["steps"]
                                     [sample.place("all_gather").second]["dim"]
                                .get<int>())
            .ends_with(" needs the same"));
  CHECK(sample.step_error("all_gather", "from_dim", -2) ==
        "from_dim: found -2; all_gather of a tensor of rank 2 needs a dimension below it");
  CHECK(sample.step_error("all_reduce", "dim", 0) == "dim: found 0; all_reduce has none");
  CHECK(sample.step_error("reduce_scatter", "from_dim", 0) ==
        "from_dim: found 0; reduce_scatter has none");
  CHECK(sample.step_error("reduce_scatter", "dim", 2147483647).find("found 2147483647") !=
        std::string::npos);
  CHECK(sample.step_error("all_reduce", "axes", {0, 0}) ==
        "axes: found 0 in place 1; give axes of the 2 mesh, ascending from 0 to 0");
  CHECK(sample.step_error("all_reduce", "axes", {2147483647}) ==
        "axes: found 2147483647 in place 0; give axes of the 2 mesh, ascending from 0 to 0");
  CHECK(sample.step_error("all_reduce", "axes", Json::array()) ==
        "axes: found 0; all_reduce is over at least one axis");
  CHECK(sample.step_error("all_gather", "seconds", 1e308) ==
        "seconds: found 1e+308, expected 0 to 1000000000000");
  CHECK(sample.step_error("all_gather", "seconds", -1) ==
        "seconds: found -1, expected 0 to 1000000000000");
}

TEST_CASE("meshes, costs and counts out of range") {
  const Sample sample;
  CHECK(
      sample.error([](Json& p) { p["mesh"]["axes"][0]["beta_seconds_per_byte"] = 1e308; }) ==
      "plan p.json: mesh.axes[0].beta_seconds_per_byte: found 1e+308, expected 0 to 1000000000000");
  CHECK(sample.error([](Json& p) { p["mesh"]["axes"][0]["alpha_seconds"] = -1; }) ==
        "plan p.json: mesh.axes[0].alpha_seconds: found -1, expected 0 to 1000000000000");
  CHECK(sample.error([](Json& p) { p["mesh"]["devices"][1] = -5; }) ==
        "plan p.json: mesh.devices[1]: found -5; devices are numbered from 0");
  CHECK(sample.error([](Json& p) { p["mesh"]["devices"][1] = 0; }) ==
        "plan p.json: mesh: device mesh: device 0 is listed twice; list every device once");
  CHECK(sample.error([](Json& p) { p["mesh"]["axes"][0]["size"] = -2; }) ==
        "plan p.json: mesh: device mesh: axis \"x\" has size -2; give every axis at least one "
        "device");
  CHECK(sample.error([](Json& p) { p["cost"]["objective_seconds"] = -1; }) ==
        "plan p.json: cost.objective_seconds: found -1, expected seconds, 0 or more");
  CHECK(sample.error([](Json& p) { p["statistics"]["nodes"] = -1; }) ==
        "plan p.json: statistics.nodes: found -1, expected 0 or more");
}

TEST_CASE("values and uses that are not there") {
  const Sample sample;
  const int values = static_cast<int>(sample.graph.values.size());
  CHECK(
      sample.error([](Json& p) { p["reshards"][0]["value"] = 2147483647; }) ==
      fmt::format("plan p.json: reshards[0].value: found 2147483647; the graph has values 0 to {}",
                  values - 1));
  CHECK(sample.error([](Json& p) { p["reshards"][1]["uses"] = Json::array(); }) ==
        "plan p.json: reshards[1].uses: none; a resharding without uses is left out");
  CHECK(sample.error([](Json& p) { p["reshards"][0]["uses"][0] = -3; })
            .starts_with("plan p.json: reshards[0].uses[0]: found -3; uses ascend from 0 to "));
  CHECK(sample.error([](Json& p) { p["reshards"][0]["steps"] = Json::array(); })
            .starts_with("plan p.json: "));
  CHECK(sample.error([](Json& p) { p["nodes"][2]["strategy"] = "f200@0"; })
            .starts_with("plan p.json: node 2 input \""));
}

TEST_CASE("no change of a number in a plan is an internal error") {
  const Sample sample;
  const Json numbers = {2147483647, -2147483647 - 1, -1,     1,      2,  255,
                        256,        1e308,           -1e308, 1e-320, 0.5};
  int refused = 0, taken = 0;
  const std::function<void(Json&, const std::function<void()>&)> each = [&](Json& json,
                                                                            const auto& run) {
    if (json.is_structured()) {
      for (Json& part : json) each(part, run);
      return;
    }
    if (!json.is_number()) return;
    const Json before = json;
    for (const Json& number : numbers) {
      json = number;
      run();
    }
    json = before;
  };
  Json plan = sample.plan;
  each(plan, [&] {
    try {
      const ShardingPlan read = plan_from_json(plan.dump(), sample.graph, "p.json");
      explain(read, sample.graph, cost::CostModel{}, Detail::full);  // uses what it shows
      ++taken;
    } catch (const Error& error) {
      CHECK(std::string(error.what()).starts_with("plan p.json: "));
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      ++refused;
    }
  });
  CHECK(refused > 400);
  CHECK(taken > 50);
}

}  // namespace plan_content_test
