// src/compile/plan_cache.cc — plans kept on disk, by everything that they depend on
#include "plan_cache.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "alpa/base/error.h"
#include "alpa/version.h"
#include "src/base/file.h"
#include "src/base/fnv.h"
#include "src/base/json.h"
#include "src/lower/backend.h"

namespace alpa {
namespace {

using Json = nlohmann::ordered_json;
using Path = std::filesystem::path;

constexpr FileKind kCachedPlan{.name = "kept plan", .max_bytes = 1 << 29, .pipes = false};

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
  const PipeshardParallel& options = method.options;
  Json json = {{"method", std::string(name_of(method.kind))},
               {"mesh_shape", options.mesh_shape},
               {"batch_mesh_axis", json_of(options.batch_mesh_axis)},
               {"axis_uses", options.axis_uses},
               {"shard_optimizer_state", options.shard_optimizer_state},
               {"allow_all_gather", options.allow_all_gather},
               {"allow_all_to_all", options.allow_all_to_all},
               {"memory_budget_bytes", options.memory_budget_bytes.value_or(0)},
               {"bucket_bytes", options.executor.bucket_bytes.value_or(-1)},
               {"overlap", static_cast<int>(options.executor.overlap)},
               {"overlap_updates", options.executor.overlap_updates},
               {"reproducible", options.executor.reproducible}};
  if (method.kind == MethodKind::pipeline) {
    json["layers"] = layers_json(method.options.layers);
    json["stages"] =
        std::visit([](const auto& stages) { return stages_json(stages); }, method.options.stages);
    json["schedule"] = std::string(schedule_name(method.options));
  }
  return json;
}

}  // namespace

std::string options_text(const MethodOptions& method) { return json_text(options_json(method), 1); }

std::string planning_key(const Graph& graph, const MethodOptions& method, const Cluster& cluster) {
  const int threads = lower::threads_per_device(lower::find_backend(cluster.backend),
                                                method.options.executor, cluster.num_devices());
  // The hash has what the graph's text lacks: `dims` of operators that the program defines.
  return fmt::format("alpa {}, {} threads\n{}\n{}\n{:016x}\n{}", version(), threads,
                     json_text(options_json(method)), cluster.to_json(), structural_hash(graph),
                     to_string(graph));
}

// The hash names the file; what decides is the key inside.
std::string PlanCache::path_of(const std::string& key) const {
  return fmt::format("{}/{:016x}.json", folder_, fnv1a(key));
}

std::optional<std::string> PlanCache::find(const std::string& key) const {
  std::error_code failed;
  if (folder_.empty() || !std::filesystem::exists(symlink_status(Path(path_of(key)), failed)))
    return {};
  try {
    const std::string path = path_of(key), title = fmt::format("{} {}", kCachedPlan.name, path);
    const nlohmann::json file = parse_json(read_file(path, kCachedPlan), title);
    const auto text = [&](const char* name) {
      const auto found = file.is_object() ? file.find(name) : file.end();
      require(file.is_object() && found != file.end() && found->is_string(), "{}: has no \"{}\"",
              title, name);
      return found->get<std::string>();
    };
    require(text("key") == key, "{}: is of another step, or of other options", title);
    return text("plan");
  } catch (const Error& error) {
    tell_unusable(error.what());
    return {};
  }
}

void PlanCache::keep(const std::string& key, const std::string& plan) const {
  if (folder_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  const Json file = {{"key", key}, {"plan", plan}};
  try {
    require(!failed, "{}: cannot be made: {}", folder_, failed.message());
    replace_file(path_of(key), json_text(file));
  } catch (const Error& error) {
    fmt::print(stderr, "alpa: plan cache: {}; this plan is not kept\n", error.what());
  }
}

void PlanCache::tell_unusable(std::string_view why) {
  fmt::print(stderr, "alpa: plan cache: {}; the step is planned again\n", why);
}

}  // namespace alpa
