// tools/frameworks.cc — the table of frameworks, and their plans in words
#include "tools/frameworks.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/common/training.h"

namespace plan {

using namespace alpa;

namespace {

/// What each can run of dense models. None has context or expert parallelism here, nor several
/// stages on a device.
const Framework kFrameworks[] = {
    {.name = "megatron",
     .shard_uses = {AxisUse::zero2},
     .tensor = true,
     .stages = true,
     .check = check_megatron,
     .lines = megatron_lines},
    {.name = "torchtitan",
     .shard_uses = {AxisUse::zero3},
     .replicas = true,
     .tensor = true,
     .stages = true,
     .check = check_llama,
     .lines = torchtitan_lines},
    {.name = "deepspeed", .shard_uses = {AxisUse::zero2, AxisUse::zero3}, .lines = deepspeed_lines},
    {.name = "maxtext",
     .shard_uses = {AxisUse::zero3},
     .replicas = true,
     .tensor = true,
     .check = check_llama,
     .lines = maxtext_lines},
};

/// Parameters on a device of the stage, whole over the devices that split the batch.
std::int64_t parameters_of(const StagePlan& stage, const FrameworkPlan& found) {
  const DeviceMesh& mesh = stage.plan.mesh;
  const int of_tensor = found.tensor > 1 ? mesh.num_axes() - 1 : mesh.num_axes();
  std::int64_t count = 0;
  for (const Input& input : stage.graph.inputs) {
    if (input.kind != InputKind::state || !input.of.empty()) continue;
    ShardingSpec spec = stage.plan.specs[input.value];
    for (int axis = 0; axis < of_tensor; ++axis) spec.axes[axis] = {};
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

std::string degrees_text(int replicas, int shards, int tensor, int pipeline, int micro_batches,
                         std::int64_t rows, bool recomputes) {
  std::string copies;
  if (replicas > 1)
    copies = shards > 1 ? fmt::format(" ({} copies of {} shards)", replicas, shards) : " (copies)";
  return fmt::format(
      "data {}{} x tensor {} x pipeline {}; {} micro-batch{} of {} row{}; {} recomputed",
      replicas * shards, copies, tensor, pipeline, micro_batches, micro_batches == 1 ? "" : "es",
      rows, rows == 1 ? "" : "s", recomputes ? "every layer" : "nothing");
}

std::string framework_text(const Framework& framework, const Subject& subject,
                           const FrameworkPlan& found, const CompiledStep& unrestricted) {
  if (!found.result.planned) return fmt::format("{:<12}{}\n", framework.name, found.result.failure);
  const CompiledStep& planned = *found.result.planned;
  const double seconds = planned.plan.cost.objective_seconds;
  const std::pair<const char*, std::string> lines[] = {
      {"degrees", degrees_text(found.replicas, found.shards, found.tensor, found.stages(),
                               found.micro_batches(), found.rows(subject.flags), found.recomputes)},
      {"seconds",
       fmt::format("{} a step, {:.2f} times that of the plan above; {} in {}; none takes "
                   "less than {}",
                   seconds_text(seconds), seconds / unrestricted.plan.cost.objective_seconds,
                   found.result.tried, seconds_text(found.result.planning_seconds),
                   seconds_text(found.bound_seconds))},
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
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
  for (const StagePlan& stage : found.result.planned->plan.stages)
    parameters.push_back(parameters_of(stage, found));
  json.update({{"parameters", std::move(parameters)},
               {"replicas", found.replicas},
               {"shards", found.shards},
               {"tensor", found.tensor},
               {"pipeline", found.stages()},
               {"rows", found.rows(subject.flags)},
               {"recomputes", found.recomputes},
               {"ratio", seconds / unrestricted.plan.cost.objective_seconds},
               {"bound_seconds", found.bound_seconds},
               {"lines", framework.lines(subject, found)}});
  return json;
}

}  // namespace plan
