// tools/given_plan.cc — the plan of --given: stages by hand, or a plan that was saved
#include <fmt/ranges.h>

#include <algorithm>

#include "src/base/file.h"
#include "src/base/json_place.h"
#include "src/plan/cost/cost_model.h"
#include "tools/plan_methods.h"

namespace plan {

using namespace alpa;

namespace {

constexpr FileKind kGivenFile{"given plan", 1 << 28};

bool flag_of(const JsonPlace& place, const nlohmann::json& json, const char* key, bool otherwise) {
  if (!json.contains(key)) return otherwise;
  if (!json.at(key).is_boolean()) place.at(key).refuse("expected true or false");
  return json.at(key).get<bool>();
}

void check_keys(const JsonPlace& place, const std::vector<std::string>& known) {
  for (const auto& [name, value] : place.members())
    if (std::ranges::find(known, name) == known.end())
      value.refuse(fmt::format("unknown key; the keys here are {}", fmt::join(known, ", ")));
}

StageOptions options_of(const JsonPlace& stage, const nlohmann::json& json) {
  StageOptions options;
  if (!stage.contains("options")) return options;
  const JsonPlace place = stage.at("options");
  check_keys(place,
             {"batch_mesh_axis", "shard_optimizer_state", "allow_all_gather", "allow_all_to_all"});
  const nlohmann::json& given = json.at("options");
  if (place.contains("batch_mesh_axis"))
    options.batch_mesh_axis = static_cast<int>(place.at("batch_mesh_axis").count(kMaxMeshAxes - 1));
  options.shard_optimizer_state = flag_of(place, given, "shard_optimizer_state", false);
  options.allow_all_gather = flag_of(place, given, "allow_all_gather", true);
  options.allow_all_to_all = flag_of(place, given, "allow_all_to_all", true);
  return options;
}

/// The layers that the model marks, or so many that are found.
std::variant<ManualLayers, AutoLayers> layers_of(const JsonPlace& file) {
  if (!file.contains("layers")) return ManualLayers{};
  return AutoLayers{static_cast<int>(file.at("layers").count(1 << 16))};
}

PipeshardParallel method_of_stages(const nlohmann::json& json, const JsonPlace& file) {
  check_keys(file, {"description", "micro_batches", "schedule", "layers", "stages"});
  PipeshardParallel method{.layers = layers_of(file)};
  method.num_micro_batches = file.at("micro_batches").integer();
  if (file.contains("schedule")) method.schedule = file.at("schedule").parsed(parse_schedule);
  ManualStages stages;
  std::size_t number = 0;
  for (const JsonPlace& stage : file.at("stages").items()) {
    check_keys(stage, {"layers", "devices", "mesh", "options"});
    stages.layers.push_back(stage.at("layers").integers());
    const std::vector<int> shape = stage.at("mesh").parsed(parse_mesh_shape);
    int devices = 1;
    for (const int size : shape) devices *= size;
    if (stage.contains("devices")) devices = stage.at("devices").integer();
    stages.devices.push_back(devices);
    stages.mesh_shapes.push_back(shape);
    stages.options.push_back(options_of(stage, json.at("stages").at(number++)));
  }
  if (stages.layers.empty()) file.at("stages").refuse("there are none; give at least one");
  method.stages = std::move(stages);
  return method;
}

/// A saved plan keeps the links that its meshes had.
void require_same_prices(const CompiledStep& planned, const Subject& subject) {
  for (const StagePlan& stage : planned.plan.stages) {
    for (const MeshAxis& axis : stage.plan.mesh.axes()) {
      const Cluster& cluster = subject.cluster;
      const bool known =
          axis.size == 1 ||
          axis.beta_seconds_per_byte == cluster.within_host.beta_seconds_per_byte ||
          axis.beta_seconds_per_byte == std::max(cluster.within_host.beta_seconds_per_byte,
                                                 cluster.between_hosts.beta_seconds_per_byte);
      require(known,
              "given plan {}: it was planned for another cluster, whose links differ; plan "
              "it again for {}",
              subject.flags.given_plan, cluster_text(subject.flags, cluster));
    }
  }
}

}  // namespace

MethodResult given_plan(const Subject& subject, const Stoppable& stoppable) {
  const std::string& path = subject.flags.given_plan;
  const std::string title = "given plan " + path;
  const nlohmann::json json = parse_json(read_file(path, kGivenFile), title);
  const JsonPlace file(json, title);
  if (!file.contains("schema")) {
    PipeshardParallel method = method_of_stages(json, file);
    method.memory_budget_bytes = subject.flags.memory_budget;
    method.solver_seconds = subject.flags.solver_seconds;
    try {
      return planned_with("given", subject, stoppable(method));
    } catch (const Error& error) {
      fail("{}: {}", title, error.what());
    }
  }
  PipeshardParallel method{.num_micro_batches = kAutoMicroBatches};
  method.memory_budget_bytes = subject.flags.memory_budget;
  MethodResult result{.method = "given"};
  result.planned = plan_only(subject.model.step, method, subject.cluster, path);
  require_same_prices(*result.planned, subject);
  Plan& plan = result.planned->plan;
  if (!plan.schedule)
    plan.cost =
        evaluate(plan.sharding(), plan.stages.front().graph, cost::CostModel::of(subject.cluster));
  plan.cost.lower_bound_seconds = 0;
  result.planning_seconds = result.planned->seconds;
  return result;
}

}  // namespace plan
