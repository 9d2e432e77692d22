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

Json stage_json(const StagePlan& stage, int number) {
  const StageSeconds& s = stage.seconds;
  const StageMemory& m = stage.memory;
  return {{"stage", number},
          {"first_layer", stage.first_layer},
          {"last_layer", stage.last_layer},
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

/// Five lines; numbers in them are those of other keys.
Json summary_json(const Plan& plan, const Json& report) {
  const auto line = [](const char* label, std::string text) {
    return Json{{"label", label}, {"text", std::move(text)}};
  };
  double largest = 0;
  for (const Json& stage : report["stages"])
    largest = std::max(largest, stage["memory"]["limit"].get<double>());
  double communication = 0, all = 0;
  for (const Json& time : report["time"]) {
    communication += time["communication"].get<double>();
    for (const char* part : {"compute", "memory", "communication", "waiting"})
      all += time[part].get<double>();
  }
  return Json::array(
      {line("Plan", fmt::format("{} on {} devices, meshes {}", plan.method,
                                report["devices"].get<int>(), meshes_text(plan))),
       line("Step", fmt::format("{} predicted", seconds_text(report["seconds"].get<double>()))),
       line("Proof", proof_text(plan)),
       line("Memory",
            fmt::format("{} of a device{}", bytes_text(report["memory_bytes"].get<double>()),
                        largest > 0 ? " of " + bytes_text(largest) : "")),
       line("Communication",
            fmt::format("{:.0f} % of the devices' time, waiting {:.0f} %",
                        all > 0 ? 100 * communication / all : 0, 100 * plan.bubble))});
}

}  // namespace

Json plan_numbers(const Plan& plan, const Cluster& cluster, std::int64_t memory_bytes) {
  const cost::CostModel model = cost::CostModel::of(cluster);
  std::set<int> devices;
  for (const StagePlan& stage : plan.stages)
    devices.insert(stage.plan.mesh.devices().begin(), stage.plan.mesh.devices().end());
  Json json = {{"schema", "alpa.report/1"},
               {"method", plan.method},
               {"devices", devices.size()},
               {"seconds", plan.cost.objective_seconds},
               {"lower_bound_seconds", plan.cost.lower_bound_seconds},
               {"gap", plan.cost.gap()},
               {"bubble", plan.bubble},
               {"micro_batches", plan.stages.front().graph.num_micro_batches},
               {"memory_bytes", memory_bytes},
               {"summary", nullptr}};
  for (const char* key : {"stages", "time", "operators", "sharding", "memory"})
    json[key] = Json::array();
  json["communication"] = {{"kinds", Json::array()}, {"largest", Json::array()}};
  const auto append = [](Json& to, Json from) {
    for (Json& one : from) to.push_back(std::move(one));
  };
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    const StagePlan& stage = plan.stages[s];
    const intra_op::PricedPlan priced(stage.plan, stage.graph, model);
    json["stages"].push_back(stage_json(stage, s));
    Json time = page::time_json(priced);
    time["stage"] = s;
    const double busy = time["compute"].get<double>() + time["memory"].get<double>() +
                        time["communication"].get<double>();
    time["waiting"] = std::max(0.0, plan.cost.objective_seconds - busy);
    json["time"].push_back(std::move(time));
    append(json["operators"], page::operators_json(priced, s));
    append(json["sharding"], page::sharding_json(priced, s));
    json["memory"].push_back(page::memory_json(priced, std::max(1, stage.memory.in_flight)));
    Json communication = page::communication_json(priced, s);
    append(json["communication"]["kinds"], std::move(communication["kinds"]));
    append(json["communication"]["largest"], std::move(communication["largest"]));
  }
  if (plan.schedule) json["timeline"] = timeline_json(plan);
  json["transfers"] = transfers_json(plan);
  json["assumptions"] = assumptions_json(cluster);
  json["summary"] = summary_json(plan, json);
  return json;
}

Json report_json(const Plan& plan, const Cluster& cluster, std::int64_t memory_bytes) {
  Json json = plan_numbers(plan, cluster, memory_bytes);
  json["hand_made"] = page::hand_made_json(plan, cluster);
  return json;
}

}  // namespace alpa
