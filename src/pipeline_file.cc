// src/pipeline_file.cc — plans with stages as JSON
#include "pipeline_file.h"

#include "pipeline_planning.h"
#include "plan_proof.h"
#include "src/intra_op/plan/plan_file.h"
#include "src/ir/stages.h"

namespace alpa {
namespace {

using Json = nlohmann::ordered_json;
using Place = intra_op::PlanFilePlace;

constexpr const char *kFamily = "alpa.pipeline/", *kSchema = "alpa.pipeline/1";

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

}  // namespace

bool is_pipeline_file(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto schema = json.is_object() ? json.find("schema") : json.end();
  return json.is_object() && schema != json.end() && schema->is_string() &&
         schema->get<std::string>().starts_with(kFamily);
}

std::vector<std::string> stage_plans(const std::string& text, const std::string& origin) {
  const nlohmann::json json = parse_json(text, "plan " + origin);
  const Place file(json, origin, "");
  std::vector<std::string> plans;
  for (const Place& stage : file.at("stages").items()) plans.push_back(stage.at("plan").dump());
  return plans;
}

std::string pipeline_json(const CompiledStep& step) {
  Json layers = Json::array(), stages = Json::array();
  for (const Node& node : step.graph.nodes) layers.push_back(node.layer);
  for (const StagePlan& stage : step.stages)
    stages.push_back({{"first_layer", stage.first_layer},
                      {"last_layer", stage.last_layer},
                      {"seconds", seconds_json(stage.seconds)},
                      {"memory_bytes", memory_json(stage.memory)},
                      {"plan", Json::parse(to_json(stage.plan, stage.graph))}});
  const Json file = {{"schema", kSchema},
                     {"num_micro_batches", step.graph.num_micro_batches},
                     {"schedule", std::string(name_of(step.schedule))},
                     {"predicted_seconds", step.plan.cost.objective_seconds},
                     {"lower_bound_seconds", step.plan.cost.lower_bound_seconds},
                     {"proof", proof_text(step)},
                     {"bubble", step.bubble},
                     {"transfers", transfers_json(step.transfers)},
                     {"layers", std::move(layers)},
                     {"stages", std::move(stages)}};
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

CompiledStep pipeline_from_json(const std::string& text, const TrainingStep& step,
                                int num_micro_batches, const std::string& origin) {
  const nlohmann::json json = parse_json(text, "plan " + origin);
  const Place file(json, origin, "");
  if (file.at("schema").text() != kSchema) file.at("schema").bad(kSchema);
  CompiledStep planned;
  if (num_micro_batches == kAutoMicroBatches)
    num_micro_batches = file.at("num_micro_batches").integer();
  planned.graph = traced_in_layers(step, num_micro_batches, file.at("layers").integers(), origin);
  planned.schedule = file.at("schedule").parsed(parse_schedule);
  planned.plan.cost.lower_bound_seconds = file.at("lower_bound_seconds").number();
  const std::vector<Place> stages = file.at("stages").items();
  for (const Place& stage : stages) planned.stages.push_back(layers_of(stage, planned.stages));
  const int layers = planned.stages.empty() ? 0 : planned.stages.back().last_layer + 1;
  if (layers != num_layers(planned.graph))
    file.at("stages").refuse(fmt::format("the stages have {} layers, but the step has {}", layers,
                                         num_layers(planned.graph)));
  cut_into_stages(planned.graph, planned.stages);
  for (std::size_t s = 0; s < stages.size(); ++s)
    planned.stages[s].plan = plan_from_json(stages[s].at("plan").dump(), planned.stages[s].graph,
                                            fmt::format("{}: stages[{}].plan", origin, s));
  return planned;
}

}  // namespace alpa
