// models/common/report.cc — reports of a run, as tables and as JSON
#include "models/common/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace programs {

using namespace alpa;
using Json = nlohmann::ordered_json;

namespace {

std::map<std::string, Traffic> communication_of(const CompiledStep& planned, const RunResult* run) {
  return run ? run->communication : planned.traffic();
}

Json step_seconds_json(const RunResult* run) {
  if (!run || run->seconds.empty()) return nullptr;
  const auto [min, max] = std::minmax_element(run->seconds.begin(), run->seconds.end());
  return {{"median", run->median_seconds()}, {"min", *min}, {"max", *max}};
}

Json communication_json(const std::map<std::string, Traffic>& communication) {
  Json json = Json::object();
  for (const auto& [kind, traffic] : communication)
    json[kind] = {{"count", traffic.count}, {"bytes", traffic.bytes}};
  return json;
}

Json planner_json(const CompiledStep& planned) {
  const PlanCost& cost = planned.plan.cost;
  PlannerStatistics statistics;
  for (const StagePlan& stage : planned.plan.stages) {
    const PlannerStatistics& own = stage.plan.statistics;
    statistics.solve_seconds += own.solve_seconds;
    statistics.nodes += own.nodes, statistics.strategies += own.strategies;
    statistics.variables += own.variables, statistics.constraints += own.constraints;
  }
  const bool bounded = has_bound(planned.plan);
  return {{"objective_seconds", cost.objective_seconds},
          {"communication_seconds", cost.communication_seconds},
          {"compute_seconds", cost.compute_seconds},
          {"lower_bound_seconds", bounded ? Json(cost.lower_bound_seconds) : Json(nullptr)},
          {"gap", bounded ? Json(cost.gap()) : Json(nullptr)},
          {"proof", proof_text(planned.plan)},
          {"solve_seconds", statistics.solve_seconds},
          {"total_seconds", planned.seconds},
          {"nodes", statistics.nodes},
          {"strategies", statistics.strategies},
          {"variables", statistics.variables},
          {"constraints", statistics.constraints}};
}

/// Calls `visit(name, type, spec, mesh)` for every parameter of a graph.
template <class Visitor>
void for_each_parameter(const Graph& graph, const ShardingPlan& plan, Visitor&& visit) {
  const std::vector<std::string> names = parameter_names(graph);
  for (const Input& input : graph.inputs)
    if (std::find(names.begin(), names.end(), input.name) != names.end())
      visit(input.name, graph.type(input.value), plan.specs[input.value], plan.mesh);
}

/// The same for a step, stage by stage.
template <class Visitor>
void for_each_parameter(const CompiledStep& planned, Visitor&& visit) {
  for (const StagePlan& stage : planned.plan.stages)
    for_each_parameter(stage.graph, stage.plan, visit);
}

Json parameters_json(const CompiledStep& planned) {
  Json json = Json::object();
  for_each_parameter(planned, [&](const std::string& name, const TensorType& type,
                                  const ShardingSpec& spec, const DeviceMesh&) {
    json[name] = {{"shape", type.shape}, {"sharding", to_string(spec)}};
  });
  return json;
}

/// JSON has no other numbers than finite ones: "nan", "inf" and "-inf" are texts.
Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json numbers_json(const std::vector<double>& values) {
  Json json = Json::array();
  for (double value : values) json.push_back(number_json(value));
  return json;
}

Json or_null(const std::optional<double>& value) {
  return value ? number_json(*value) : Json(nullptr);
}

std::optional<double> test_metric(const RunResult& run, const std::string& name) {
  const auto found = run.test.find(name);
  return found == run.test.end() ? std::nullopt : std::optional(found->second);
}

Json recomputed_json(const CompiledStep& planned) {
  Json json = Json::array();
  for (const RecomputedLayer& layer : planned.recomputed())
    json.push_back({{"layer", layer.number},
                    {"nodes", layer.nodes},
                    {"seconds", layer.seconds},
                    {"bytes", layer.bytes}});
  return json;
}

std::string difference_text(double difference) {
  if (std::isnan(difference))
    return "difference  not a number: parameters of this run, "
           "of the run on one device or of both are NaN; lower --learning-rate\n";
  return fmt::format("difference  {:.3g} at most in any parameter from the run on one device\n",
                     difference);
}

}  // namespace

std::string report_json(const CompiledStep& planned, const RunResult* run) {
  Json json;
  json["method"] = planned.plan.method;
  json["mesh"] = meshes_text(planned.plan);
  json["micro_batches"] = planned.graph.num_micro_batches;
  json["first_step"] = run ? run->first_step : 0;
  json["loss"] = run ? numbers_json(run->losses) : Json::array();
  json["step_seconds"] = step_seconds_json(run);
  json["memory"] = {{"planned_bytes", planned.memory_bytes},
                    {"measured_bytes", run ? Json(run->measured_bytes) : Json(nullptr)},
                    {"exchange_bytes", run ? Json(run->exchange_bytes) : Json(nullptr)}};
  json["recomputed"] = recomputed_json(planned);
  json["flops"] = flops_per_step(planned.graph);
  json["communication"] = communication_json(communication_of(planned, run));
  json["planner"] = planner_json(planned);
  json["max_abs_parameter_difference"] =
      run ? or_null(run->max_abs_parameter_difference) : Json(nullptr);
  json["test_accuracy"] = run ? or_null(test_metric(*run, "accuracy")) : Json(nullptr);
  json["test_loss"] = run ? or_null(test_metric(*run, "loss")) : Json(nullptr);
  json["parameters"] = parameters_json(planned);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string summary_text(const CompiledStep& planned, const RunResult* run) {
  std::string plan = to_string(planned);  // of stages, with a line for each
  plan.insert(std::min(plan.find('\n'), plan.size()),
              fmt::format("; planned in {}", seconds_text(planned.seconds)));
  std::string text = fmt::format("plan        {}\n", plan);
  text += fmt::format("memory      {} bytes per device planned", planned.memory_bytes);
  text += run ? fmt::format(", {} measured\n", run->measured_bytes) : "\n";
  if (run && run->exchange_bytes > 0)
    text += fmt::format("messages    {} bytes per process for those with other processes\n",
                        run->exchange_bytes);
  if (const std::string again = recomputed_text(planned); !again.empty())
    text += fmt::format("recomputed  {}\n", again);
  for (const auto& [kind, traffic] : communication_of(planned, run))
    text += fmt::format("sent        {} by {} {} per device and step\n", bytes_text(traffic.bytes),
                        traffic.count, kind);
  for (const StagePlan& stage : planned.plan.stages)
    if (const std::string repeated = repeated_work_text(stage.plan, stage.graph); !repeated.empty())
      text += fmt::format("repeated    {}\n", repeated);
  if (!run) return text;
  if (!run->seconds.empty())
    text += fmt::format("time        {} per step (median)\n", seconds_text(run->median_seconds()));
  if (run->max_abs_parameter_difference)
    text += difference_text(*run->max_abs_parameter_difference);
  if (const std::optional<double> accuracy = test_metric(*run, "accuracy"))
    text += fmt::format("accuracy    {:.2f} % of the test set\n", *accuracy * 100);
  if (const std::optional<double> loss = test_metric(*run, "loss"))
    text += fmt::format("test loss   {:.4f}\n", *loss);
  return text;
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.at(0).size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) line += fmt::format("  {:>{}}", row[i], widths[i]);
    text += line.erase(line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string sharding_text(const CompiledStep& planned) {
  std::size_t width = 0;
  for_each_parameter(planned, [&](const std::string& name, const auto&...) {
    width = std::max(width, name.size());
  });
  std::string text;
  for_each_parameter(planned, [&](const std::string& name, const TensorType& type,
                                  const ShardingSpec& spec, const DeviceMesh& mesh) {
    text += fmt::format("{:<{}}  {:<16}  {}\n", name, width, to_string(type),
                        describe(spec, type.rank(), mesh));
  });
  return text;
}

}  // namespace programs
