// src/report/report_json.cc — the numbers of a report
#include "report_json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "alpa/base/text.h"
#include "pipeline_forecast.h"
#include "plan_summary.h"
#include "report_parts.h"
#include "src/ir/input.h"

namespace alpa {

using Json = nlohmann::ordered_json;

namespace {

/// Runs that a timeline shows, at most: of the first micro-batches.
constexpr int kMostRuns = 4000;

/// Classes of operators of a stage that a report has, and those with their next best strategy.
constexpr std::size_t kMostOperators = 20, kMostChoices = 12;

Json stage_json(const StagePlan& stage) {
  const StageSeconds& s = stage.seconds;
  const StageMemory& m = stage.memory;
  return {{"layers", {stage.first_layer, stage.last_layer}},
          {"mesh", shape_text(stage.plan.mesh)},
          {"devices", stage.plan.mesh.num_devices()},
          {"seconds", {{"forward", s.forward}, {"backward", s.backward}, {"apply", s.apply}}},
          {"memory",
           {{"state", m.state},
            {"accumulators", m.accumulators},
            {"activations", m.activations},
            {"temporaries", m.temporaries},
            {"total", m.total()},
            {"limit", m.limit},
            {"in_flight", m.in_flight}}}};
}

std::string_view word_of(const pipeline::RegionRun& run) {
  if (run.part == pipeline::GradientPart::weights) return "weights";
  return name_of(run.region);
}

Json timeline_json(const Plan& plan) {
  const pipeline::Timeline timeline = forecast(plan);
  const int parts = std::max<int>(1, static_cast<int>(timeline.meshes.size()));
  int most = timeline.micro_batches;  // micro-batches that are shown
  while (most > 1 && 2 * most * static_cast<int>(plan.stages.size()) > kMostRuns) --most;
  Json meshes = Json::array();
  for (int mesh = 0; mesh < static_cast<int>(timeline.meshes.size()); ++mesh) {
    Json runs = Json::array();
    for (const pipeline::TimedRun& timed : timeline.meshes[mesh]) {
      const bool is_apply = timed.run.region == Region::apply;
      if (!is_apply && timed.run.micro_batch >= most) continue;
      runs.push_back({{"run", word_of(timed.run)},
                      {"micro_batch", timed.run.micro_batch},
                      {"stage", timed.run.chunk * parts + mesh},
                      {"begin", timed.begin},
                      {"end", timed.end}});
    }
    meshes.push_back(std::move(runs));
  }
  return {{"seconds", timeline.clocks},
          {"micro_batches", timeline.micro_batches},
          {"shown_micro_batches", most},
          {"meshes", std::move(meshes)}};
}

Json transfers_json(const Plan& plan) {
  Json json = Json::array();
  for (const StageTransfer& t : plan.transfers)
    json.push_back({{"from", t.from},
                    {"to", t.to},
                    {"per", t.once ? "step" : "micro-batch"},
                    {"tensors", t.tensors},
                    {"bytes", t.bytes},
                    {"seconds", t.seconds}});
  return json;
}

Json link_json(const char* what, const Link& link) {
  return {
      {"what", what},
      {"alpha_seconds", link.alpha_seconds},
      {"bytes_per_second", link.beta_seconds_per_byte > 0 ? 1 / link.beta_seconds_per_byte : 0}};
}

Json assumptions_json(const Cluster& cluster) {
  const DeviceModel& device = cluster.device;
  Json rates = Json::array();
  for (const auto& [dtype, rate] : device.flops_per_second)
    if (rate > 0) rates.push_back({{"dtype", name_of(dtype)}, {"flops_per_second", rate}});
  Json links = Json::array({link_json("within a host", cluster.within_host)});
  if (cluster.num_hosts > 1) links.push_back(link_json("between hosts", cluster.between_hosts));
  return {{"hosts", cluster.num_hosts},
          {"devices_per_host", cluster.devices_per_host},
          {"memory_bytes", device.memory_bytes},
          {"memory_bytes_per_second", device.memory_bytes_per_second},
          {"launch_seconds", device.launch_seconds},
          {"measured", !device.measured.products.empty()},
          {"rates", std::move(rates)},
          {"links", std::move(links)}};
}

}  // namespace

Json summary_json(const Plan& plan, std::int64_t memory_bytes) {
  std::set<int> devices;
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) {
    devices.insert(stage.plan.mesh.devices().begin(), stage.plan.mesh.devices().end());
    stages.push_back(stage_json(stage));
  }
  const bool bounded = has_bound(plan);
  return {{"method", plan.method},
          {"meshes", meshes_text(plan)},
          {"devices", devices.size()},
          {"seconds", plan.cost.objective_seconds},
          {"lower_bound_seconds", bounded ? Json(plan.cost.lower_bound_seconds) : Json()},
          {"gap", bounded ? Json(plan.cost.gap()) : Json()},
          {"proof", proof_text(plan)},
          {"bubble", plan.bubble},
          {"micro_batches", plan.stages.front().graph.num_micro_batches},
          {"schedule", plan.schedule ? Json(name_of(*plan.schedule)) : Json()},
          {"memory_bytes", memory_bytes},
          {"stages", std::move(stages)},
          {"transfers", transfers_json(plan)}};
}

namespace {

/// Limits as those of `page::operators_json`.
Json numbers_of(const Plan& plan, const Cluster& cluster, std::int64_t memory_bytes,
                std::size_t most_operators, std::size_t most_choices) {
  const cost::CostModel model = cost::CostModel::of(cluster);
  Json json = summary_json(plan, memory_bytes);
  for (const char* key : {"time", "operators", "sharding", "memory"}) json[key] = Json::array();
  json["communication"] = {{"kinds", Json::array()}, {"largest", Json::array()}};
  const auto append = [](Json& to, Json from) {
    for (Json& one : from) to.push_back(std::move(one));
  };
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    const StagePlan& stage = plan.stages[s];
    const intra_op::PricedPlan priced(stage.plan, stage.graph, model);
    Json time = page::time_json(priced);
    const double busy = time["compute"].get<double>() + time["memory"].get<double>() +
                        time["communication"].get<double>();
    time["waiting"] = std::max(0.0, plan.cost.objective_seconds - busy);
    json["time"].push_back(std::move(time));
    append(json["operators"], page::operators_json(priced, s, most_operators, most_choices));
    append(json["sharding"], page::sharding_json(priced, s));
    json["memory"].push_back(page::memory_json(priced, std::max(1, stage.memory.in_flight)));
    Json communication = page::communication_json(priced, s);
    append(json["communication"]["kinds"], std::move(communication["kinds"]));
    append(json["communication"]["largest"], std::move(communication["largest"]));
  }
  if (plan.schedule) json["timeline"] = timeline_json(plan);
  json["assumptions"] = assumptions_json(cluster);
  return json;
}

}  // namespace

Json plan_numbers(const Plan& plan, const Cluster& cluster, std::int64_t memory_bytes) {
  return numbers_of(plan, cluster, memory_bytes, std::numeric_limits<std::size_t>::max(), 0);
}

Json report_json(const Plan& plan, const Cluster& cluster, std::int64_t memory_bytes) {
  Json json = {{"schema", "alpa.report/2"}};
  json.update(numbers_of(plan, cluster, memory_bytes, kMostOperators, kMostChoices));
  json["hand_made"] = page::hand_made_json(plan, cluster);
  return json;
}

}  // namespace alpa
