// tools/frameworks.cc — the table of frameworks, and their plans in words
#include "tools/frameworks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "models/common/training.h"

namespace plan {

using namespace alpa;

namespace {

/// What each can run.
const Framework kFrameworks[] = {
    {.name = "megatron",
     .shard_uses = {AxisUse::zero1},
     .experts = true,
     .context = true,
     .tensor = true,
     .stages = true,
     .virtual_stages = true,
     .check = check_megatron,
     .lines = megatron_lines},
    {.name = "torchtitan",
     .shard_uses = {AxisUse::zero3},
     .replicas = true,
     .experts = true,
     .context = true,
     .tensor = true,
     .stages = true,
     .virtual_stages = true,
     .check = check_torchtitan,
     .lines = torchtitan_lines},
    {.name = "deepspeed",
     .shard_uses = {AxisUse::zero1, AxisUse::zero2, AxisUse::zero3},
     .experts = true,
     .check = check_deepspeed,
     .lines = deepspeed_lines},
    {.name = "maxtext",
     .shard_uses = {AxisUse::zero3},
     .replicas = true,
     .tensor = true,
     .check = check_maxtext,
     .lines = maxtext_lines},
};

/// Axes of a stage's mesh whose devices have different parameters.
bool splits_parameters(AxisUse use, const Degrees& degrees) {
  // Experts that are also split as state are gathered over the other axes alone.
  return use == AxisUse::tensor || (use == AxisUse::experts && degrees.shard_use != AxisUse::zero3);
}

/// Parameters on a device of the stage, as it computes with them.
std::int64_t parameters_of(const StagePlan& stage, const Degrees& degrees,
                           const std::vector<AxisUse>& uses) {
  const DeviceMesh& mesh = stage.plan.mesh;
  std::int64_t count = 0;
  for (const Input& input : stage.graph.inputs) {
    if (input.kind != InputKind::state || !input.of.empty()) continue;
    ShardingSpec spec = stage.plan.specs[input.value];
    // Axes of experts split the state of all parameters, but the copies of experts alone.
    for (const Input& copy : stage.graph.inputs)
      if (copy.name.starts_with(input.name + ".") &&
          stage.graph.type(copy.value).dtype == programs::computed_in(stage.graph) &&
          stage.graph.type(copy.value).shape == stage.graph.type(input.value).shape)
        spec = stage.plan.specs[copy.value];
    for (std::size_t axis = 0; axis < uses.size(); ++axis)
      if (!splits_parameters(uses[axis], degrees)) spec.axes[axis] = {};
    const TensorType& type = stage.graph.type(input.value);
    count += TensorType{type.dtype,
                        local_shape(type.shape, spec, mesh, std::vector<int>(mesh.num_axes(), 0))}
                 .elements();
  }
  return count;
}

}  // namespace

const Framework& find_framework(std::string_view name) {
  const auto* const found = std::ranges::find(kFrameworks, name, &Framework::name);
  require(found != std::end(kFrameworks), "--for is '{}'; the frameworks are {}", excerpt(name),
          fmt::join(framework_names(), ", "));
  return *found;
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const Framework& framework : kFrameworks) names.emplace_back(framework.name);
  return names;
}

int zero_stage(AxisUse use) {
  return use == AxisUse::zero3 ? 3 : use == AxisUse::zero2 ? 2 : use == AxisUse::zero1 ? 1 : 0;
}

std::string recomputed_text(const Degrees& of) {
  return of.recomputes ? "every layer recomputed" : "nothing recomputed";
}

std::string degrees_text(const Degrees& of, std::int64_t rows) {
  std::string data = fmt::format("data {}", of.data());
  if (of.replicas > 1)
    data += of.shards > 1 ? fmt::format(" ({} copies of {} shards)", of.replicas, of.shards)
                          : " (copies)";
  if (of.experts > 1) data += fmt::format(" (experts {})", of.experts);
  if (of.context > 1) data += fmt::format(" x context {}", of.context);
  std::string pipeline = fmt::format("pipeline {}", of.pipeline);
  if (of.virtual_stages > 1) pipeline += fmt::format(" of {} stages each", of.virtual_stages);
  return fmt::format("{} x tensor {} x {}; {} micro-batch{} of {} row{}; {}", data, of.tensor,
                     pipeline, of.micro_batches, of.micro_batches == 1 ? "" : "es", rows,
                     rows == 1 ? "" : "s", recomputed_text(of));
}

namespace {

/// "pipeline 4: +0.5 s, 1: about +0.9 s": the best of the others of each degree.
std::string others_text(const FrameworkPlan& found, double seconds) {
  constexpr int kMost = 2;  // of a degree
  std::string text;
  std::map<std::string, int> shown;
  for (const OtherChoice& other : found.others) {
    if (other.seconds < seconds || ++shown[other.own] > kMost) continue;
    text += fmt::format("{}{}: {}+{}", text.empty() ? "" : "; ", other.choice,
                        other.guessed ? "about " : "", seconds_text(other.seconds - seconds));
  }
  return text.empty() ? "none fits" : text;
}

}  // namespace

std::string framework_text(const Framework& framework, const Subject& subject,
                           const FrameworkPlan& found, const CompiledStep& unrestricted) {
  if (!found.result.planned) return fmt::format("{:<12}{}\n", framework.name, found.result.failure);
  const CompiledStep& planned = *found.result.planned;
  const double seconds = planned.plan.cost.objective_seconds;
  const std::pair<const char*, std::string> lines[] = {
      {"degrees", degrees_text(found.degrees, found.rows(subject.flags))},
      {"seconds",
       fmt::format("{} a step, {:.2f} times that of the plan above; {} in {}; none takes "
                   "less than {}",
                   seconds_text(seconds), seconds / unrestricted.plan.cost.objective_seconds,
                   found.result.tried, seconds_text(found.result.planning_seconds),
                   seconds_text(found.bound_seconds))},
      {"others", others_text(found, seconds)},
      {"memory", memory_of_device_text(subject, planned)}};
  std::string text = fmt::format("for {}\n", framework.name);
  for (const auto& [label, words] : lines) text += fmt::format("{:<12}{}\n", label, words);
  text += '\n';
  for (const std::string& line : framework.lines(subject, found)) text += line + '\n';
  return text;
}

nlohmann::ordered_json framework_json(const Framework& framework, const Subject& subject,
                                      const FrameworkPlan& found,
                                      const CompiledStep& unrestricted) {
  nlohmann::ordered_json json = result_json(subject, found.result);
  if (!found.result.planned) return json;
  const double seconds = found.result.planned->plan.cost.objective_seconds;
  const Degrees& degrees = found.degrees;
  const std::vector<AxisUse> uses = meshes_of(subject.cluster, degrees, true).axis_uses;
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array(),
                         others = nlohmann::ordered_json::array();
  for (const StagePlan& stage : found.result.planned->plan.stages)
    parameters.push_back(parameters_of(stage, degrees, uses));
  for (const OtherChoice& other : found.others)
    others.push_back(
        {{"choice", other.choice}, {"seconds", other.seconds}, {"guessed", other.guessed}});
  json.update({{"parameters", std::move(parameters)},
               {"replicas", degrees.replicas},
               {"shards", degrees.shards},
               {"experts", degrees.experts},
               {"context", degrees.context},
               {"tensor", degrees.tensor},
               {"pipeline", degrees.pipeline},
               {"virtual_stages", degrees.virtual_stages},
               {"zero", zero_stage(degrees.shard_use)},
               {"rows", found.rows(subject.flags)},
               {"recomputes", degrees.recomputes},
               {"others", std::move(others)},
               {"ratio", seconds / unrestricted.plan.cost.objective_seconds},
               {"bound_seconds", found.bound_seconds},
               {"lines", framework.lines(subject, found)}});
  return json;
}

}  // namespace plan
