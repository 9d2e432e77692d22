// src/compile/plan_file.cc — plans as JSON
#include "plan_file.h"

#include "alpa/compile/parallel_method.h"
#include "src/ir/stages.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/evaluation/plan_file.h"
#include "src/search/stages/cut_stages.h"
#include "src/train/parameter_copies.h"
#include "trace.h"

namespace alpa {
namespace {

using Json = nlohmann::ordered_json;
using Place = JsonPlace;

constexpr const char *kSchema = "alpa.plan/2", *kOlderStages = "alpa.pipeline/1",
                     *kOlderSharding = "alpa.plan/1";
/// Present and true: every micro-batch converts parameters to half precision.
constexpr const char* kConverts = "converts_parameters";

/// The layers of a stage that follows `before`.
StagePlan layers_of(const Place& stage, const std::vector<StagePlan>& before) {
  StagePlan result;
  result.first_layer = stage.at("first_layer").integer();
  result.last_layer = stage.at("last_layer").integer();
  const int next = before.empty() ? 0 : before.back().last_layer + 1;
  if (result.first_layer != next || result.last_layer < next)
    stage.refuse(fmt::format("found layers {} to {}, expected a range that begins with layer {}",
                             result.first_layer, result.last_layer, next));
  return result;
}

// What is predicted, for readers: loading computes it again.

Json seconds_json(const StageSeconds& seconds) {
  return {{"forward", seconds.forward},
          {"backward", seconds.backward},
          {"weights", seconds.weights},
          {"apply", seconds.apply}};
}

Json memory_json(const StageMemory& memory) {
  return {{"state", memory.state},
          {"accumulators", memory.accumulators},
          {"activations", memory.activations},
          {"in_flight", memory.in_flight},
          {"temporaries", memory.temporaries},
          {"limit", memory.limit}};
}

StageSeconds read_seconds(const Place& place) {
  return {place.at("forward").number(), place.at("backward").number(), place.at("weights").number(),
          place.at("apply").number()};
}

StageMemory read_memory(const Place& place) {
  const auto bytes = [&](const char* key) {
    return static_cast<std::int64_t>(place.at(key).count(std::numeric_limits<std::int64_t>::max()));
  };
  return {bytes("state"),       bytes("accumulators"),
          bytes("activations"), place.at("in_flight").integer(),
          bytes("temporaries"), bytes("limit")};
}

StageTransfer read_transfer(const Place& place, int stages) {
  const auto stage = [&](const char* key) {
    return static_cast<int>(place.at(key).count(stages - 1));
  };
  StageTransfer transfer{stage("from"), stage("to")};
  transfer.once = place.at("per").text() == "step";
  transfer.tensors = place.at("tensors").integer();
  transfer.bytes = place.at("bytes").number();
  transfer.seconds = place.at("seconds").number();
  return transfer;
}

Json transfers_json(const std::vector<StageTransfer>& transfers) {
  Json json = Json::array();
  for (const StageTransfer& transfer : transfers)
    json.push_back({{"from", transfer.from},
                    {"to", transfer.to},
                    {"per", transfer.once ? "step" : "micro-batch"},
                    {"tensors", transfer.tensors},
                    {"bytes", transfer.bytes},
                    {"seconds", transfer.seconds},
                    {"strategies", transfer.strategies}});
  return json;
}

/// False: the file is a sharding plan, of an earlier version. Throws Error if it is of another one.
bool has_stages(const Place& file) {
  const std::string schema = file.at("schema").text();
  if (schema == kSchema || schema == kOlderStages) return true;
  require(schema == kOlderSharding, "{}: schema \"{}\"; this version reads \"{}\"; plan again",
          file.origin(), excerpt(schema), kSchema);
  return false;
}

Json stages_json(const std::vector<StagePlan>& stages) {
  Json json = Json::array();
  for (const StagePlan& stage : stages)
    json.push_back({{"first_layer", stage.first_layer},
                    {"last_layer", stage.last_layer},
                    {"seconds", seconds_json(stage.seconds)},
                    {"memory_bytes", memory_json(stage.memory)},
                    {"plan", intra_op::plan_json(stage.plan, stage.graph)}});
  return json;
}

/// The layers of all stages, which together are those of `graph`.
std::vector<StagePlan> read_layers(const Place& file, const Graph& graph) {
  std::vector<StagePlan> stages;
  for (const Place& stage : file.at("stages").items()) stages.push_back(layers_of(stage, stages));
  const int layers = stages.empty() ? 0 : stages.back().last_layer + 1;
  if (layers != num_layers(graph))
    file.at("stages").refuse(
        fmt::format("the stages have {} layers, but the step has {}", layers, num_layers(graph)));
  return stages;
}

/// A stage with its graph, and with what was predicted of it.
StagePlan read_stage(const Place& place, const std::vector<StagePlan>& before,
                     const std::string& origin) {
  StagePlan stage = layers_of(place, before);
  const std::string text = place.at("plan").dump();
  const std::string where = fmt::format("{}: stages[{}].plan", origin, before.size());
  stage.graph = graph_from_plan_json(text, where);
  stage.plan = plan_from_json(text, stage.graph, where);
  stage.seconds = read_seconds(place.at("seconds"));
  stage.memory = read_memory(place.at("memory_bytes"));
  return stage;
}

/// 0 in files of before there was one.
double variant_bound(const Place& file) {
  constexpr const char* kKey = "variant_bound_seconds";
  return file.contains(kKey) ? file.at(kKey).number() : 0;
}

}  // namespace

std::vector<std::string> sharding_plans(const std::string& text, const std::string& origin) {
  const std::string title = "plan " + origin;
  const nlohmann::json json = parse_json(text, title);
  const Place file(json, title);
  if (!has_stages(file)) return {text};
  std::vector<std::string> plans;
  for (const Place& stage : file.at("stages").items()) plans.push_back(stage.at("plan").dump());
  return plans;
}

CompiledStep plan_for_readers(const std::string& text, const std::string& origin) {
  const std::string title = "plan " + origin;
  const nlohmann::json json = parse_json(text, title);
  const Place file(json, title);
  CompiledStep planned;
  if (!has_stages(file)) {
    planned.graph = graph_from_plan_json(text, origin);
    planned.plan = plan_of_one_stage(planned.graph, plan_from_json(text, planned.graph, origin));
    planned.memory_bytes =
        intra_op::peak_memory(planned.plan.sharding(), planned.plan.stages.front().graph).bytes;
    return planned;
  }
  Plan& plan = planned.plan;
  for (const Place& place : file.at("stages").items()) {
    plan.stages.push_back(read_stage(place, plan.stages, origin));
    planned.memory_bytes = std::max(planned.memory_bytes, plan.stages.back().memory.total());
  }
  if (plan.stages.empty()) file.at("stages").bad("at least one stage");
  plan.method = file.at("method").text();
  if (file.contains("schedule")) plan.schedule = file.at("schedule").parsed(parse_schedule);
  plan.cost = plan.stages.front().plan.cost;
  plan.cost.objective_seconds = file.at("predicted_seconds").number();
  plan.cost.lower_bound_seconds = file.at("lower_bound_seconds").number();
  plan.variant_bound_seconds = variant_bound(file);
  plan.bubble = file.at("bubble").number();
  for (const Place& transfer : file.at("transfers").items())
    plan.transfers.push_back(read_transfer(transfer, static_cast<int>(plan.stages.size())));
  return planned;
}

std::string to_json(const CompiledStep& step) {
  const Plan& plan = step.plan;
  Json layers = Json::array();
  for (const Node& node : step.graph.nodes) layers.push_back(node.layer);
  Json file = {{"schema", kSchema},
               {"graph", intra_op::hash_text(step.graph)},
               {"method", plan.method},
               {"num_micro_batches", step.graph.num_micro_batches},
               {"predicted_seconds", plan.cost.objective_seconds},
               {"lower_bound_seconds", plan.cost.lower_bound_seconds},
               {"variant_bound_seconds", plan.variant_bound_seconds},
               {"proof", proof_text(plan)},
               {"bubble", plan.bubble},
               {"transfers", transfers_json(plan.transfers)}};
  if (plan.schedule) file["schedule"] = std::string(name_of(*plan.schedule));
  if (converts_parameters(step.graph)) file[kConverts] = true;
  file["layers"] = std::move(layers);
  file["stages"] = stages_json(plan.stages);
  return json_text(file, 1) + "\n";
}

CompiledStep plan_from_json(const std::string& text, const TrainingStep& given,
                            std::optional<int> num_micro_batches, const std::string& origin) {
  const std::string title = "plan " + origin;
  const nlohmann::json json = parse_json(text, title);
  const Place file(json, title);
  TrainingStep step = given;
  step.keeps_copies = !file.contains(kConverts) || !file.at(kConverts).boolean();
  if (!has_stages(file)) {
    CompiledStep planned{trace(step, num_micro_batches.value_or(1)), {}};
    planned.plan = plan_of_one_stage(planned.graph, plan_from_json(text, planned.graph, origin));
    return planned;
  }
  const std::string schema = file.at("schema").text();
  const int parts = num_micro_batches ? *num_micro_batches : file.at("num_micro_batches").integer();
  CompiledStep planned{trace(step, parts, file.at("layers").integers(), origin), {}};
  if (schema == kSchema) intra_op::check_graph(file, planned.graph);
  Plan& plan = planned.plan;
  plan.stages = read_layers(file, planned.graph);
  if (schema == kOlderStages || file.contains("schedule"))
    plan.schedule = file.at("schedule").parsed(parse_schedule);
  cut_into_stages(planned.graph, plan.stages);
  const std::vector<Place> stages = file.at("stages").items();
  for (std::size_t s = 0; s < stages.size(); ++s)
    plan.stages[s].plan = plan_from_json(stages[s].at("plan").dump(), plan.stages[s].graph,
                                         fmt::format("{}: stages[{}].plan", origin, s));
  plan.method = schema == kOlderStages ? name_of(MethodKind::pipeline) : file.at("method").text();
  plan.cost = plan.schedule ? PlanCost{} : plan.sharding().cost;
  plan.cost.lower_bound_seconds = file.at("lower_bound_seconds").number();
  plan.variant_bound_seconds = variant_bound(file);
  return planned;
}

}  // namespace alpa
