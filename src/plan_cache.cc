// src/plan_cache.cc — plans kept on disk, by everything that they depend on
#include "plan_cache.h"

#include <filesystem>

#include "alpa/base/error.h"
#include "alpa/version.h"
#include "src/base/file.h"
#include "src/base/fnv.h"
#include "src/base/json.h"
#include "src/runtime/backend.h"

namespace alpa {
namespace {

using Json = nlohmann::ordered_json;

constexpr FileKind kCachedPlan{"kept plan", 1 << 29};

Json json_of(const std::optional<int>& number) { return number ? Json(*number) : Json(nullptr); }

Json layers_json(const std::variant<ManualLayers, AutoLayers>& layers) {
  const auto* automatic = std::get_if<AutoLayers>(&layers);
  return automatic ? Json{automatic->count, automatic->tolerance} : Json(nullptr);
}

Json stages_json(const UniformStages& stages) {
  return {"uniform", stages.count, stages.stages_per_part};
}
Json stages_json(const AutoStages& stages) {
  return {"auto", static_cast<int>(stages.submeshes), stages.mesh_shapes};
}
Json stages_json(const ManualStages& stages) {
  Json options = Json::array();
  for (const StageOptions& own : stages.options)
    options.push_back({json_of(own.batch_mesh_axis), own.shard_optimizer_state,
                       own.allow_all_gather, own.allow_all_to_all});
  return {"manual", stages.layers, stages.devices, stages.mesh_shapes, options};
}

Json options_json(const MethodOptions& method) {
  const ShardParallel& options = method.options;
  Json json = {{"method", std::string(name_of(method.kind))},
               {"mesh_shape", options.mesh_shape},
               {"batch_mesh_axis", json_of(options.batch_mesh_axis)},
               {"shard_optimizer_state", options.shard_optimizer_state},
               {"allow_all_gather", options.allow_all_gather},
               {"allow_all_to_all", options.allow_all_to_all},
               {"memory_budget_bytes", options.memory_budget_bytes.value_or(0)},
               {"bucket_bytes", options.executor.bucket_bytes},
               {"overlap", static_cast<int>(options.executor.overlap)},
               {"overlap_updates", options.executor.overlap_updates}};
  if (method.kind == MethodKind::pipeline) {
    json["layers"] = layers_json(method.pipeline.layers);
    json["stages"] =
        std::visit([](const auto& stages) { return stages_json(stages); }, method.pipeline.stages);
    json["schedule"] = std::string(name_of(method.pipeline.schedule));
  }
  return json;
}

}  // namespace

std::string planning_key(const Graph& graph, const MethodOptions& method, const Cluster& cluster) {
  const int threads = runtime::threads_per_device(runtime::find_backend(cluster.backend),
                                                  method.options.executor, cluster.num_devices());
  return fmt::format("alpa {}, {} threads\n{}\n{}\n{}", version(), threads,
                     options_json(method).dump(), cluster.to_json(), to_string(graph));
}

// The hash names the file; what decides is the key inside.
std::string PlanCache::path_of(const std::string& key) const {
  return fmt::format("{}/{:016x}.json", folder_, fnv1a(key));
}

std::optional<std::string> PlanCache::find(const std::string& key) const {
  if (folder_.empty() || !std::filesystem::exists(path_of(key))) return {};
  const Json file = Json::parse(read_file(path_of(key), kCachedPlan), nullptr,
                                /*allow_exceptions=*/false);
  const bool whole = file.is_object() && file.contains("key") && file.contains("plan") &&
                     file["key"].is_string() && file["plan"].is_string();
  if (!whole || file["key"].get<std::string>() != key) return {};
  return file["plan"].get<std::string>();
}

void PlanCache::keep(const std::string& key, const std::string& plan) const {
  if (folder_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  require(!failed, "plan cache {}: cannot be made: {}", folder_, failed.message());
  const Json file = {{"key", key}, {"plan", plan}};
  write_file(path_of(key), file.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace alpa
