// tools/plan_report.cc — a plan and the methods beside it, as text and as JSON
#include "tools/plan_report.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "alpa/base/text.h"
#include "models/common/report.h"
#include "models/common/training.h"
#include "src/ir/rule.h"
#include "src/lower/lower_program.h"
#include "src/lower/step_counts.h"
#include "src/report/plan_summary.h"
#include "src/report/plan_text.h"
#include "src/report/report_json.h"

namespace plan {

using namespace alpa;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kMaxLayouts = 3, kMaxStages = 6;

/// Equal neighbours once: "3 x 2x4 + 2 x 1x2"; `text` of each stage.
std::string runs_text(const Plan& plan, const std::function<std::string(const StagePlan&)>& text) {
  std::string all;
  for (std::size_t s = 0; s < plan.stages.size();) {
    const std::string one = text(plan.stages[s]);
    std::size_t end = s + 1;
    while (end < plan.stages.size() && text(plan.stages[end]) == one) ++end;
    all += all.empty() ? "" : " + ";
    all += end - s > 1 ? fmt::format("{} x {}", end - s, one) : one;
    s = end;
  }
  return all;
}

std::string mesh_text(const StagePlan& stage) { return shape_text(stage.plan.mesh); }

std::string layers_text(const Plan& plan) {
  if (plan.stages.size() > kMaxStages)
    return runs_text(plan, [](const StagePlan& stage) {
      return fmt::format("{} layers", stage.last_layer - stage.first_layer + 1);
    });
  std::string text;
  for (const StagePlan& stage : plan.stages)
    text += fmt::format("{}{} to {}", text.empty() ? "layers " : ", ", stage.first_layer,
                        stage.last_layer);
  return text;
}

std::string stages_text(const Plan& plan, int micro_batches) {
  const std::string many =
      micro_batches == 1 ? "1 micro-batch" : fmt::format("{} micro-batches", micro_batches);
  if (!plan.schedule) return fmt::format("none; {}", many);
  return fmt::format("{} of {}, {}, {}", plan.stages.size(), layers_text(plan),
                     name_of(*plan.schedule), many);
}

/// Layouts of parameters, those of the most bytes first.
std::string split_text(const Plan& plan) {
  std::vector<intra_op::LayoutGroup> groups;
  for (const StagePlan& stage : plan.stages)
    for (const Input& input : stage.graph.inputs) {
      if (input.kind != InputKind::state || !input.of.empty()) continue;
      const TensorType& type = stage.graph.type(input.value);
      add_to_group(groups, describe(stage.plan.specs[input.value], type.rank(), stage.plan.mesh),
                   input.name, static_cast<double>(type.bytes()));
    }
  std::ranges::sort(groups, [](const auto& a, const auto& b) {
    return std::tuple(-a.bytes, a.layout) < std::tuple(-b.bytes, b.layout);
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMaxLayouts, groups.size()); ++i) {
    const std::size_t others = groups[i].names.size() - 1;
    text += fmt::format("{}{}{}: {}", i > 0 ? "; " : "", groups[i].names.front(),
                        others > 0 ? fmt::format(" and {} more", others) : "", groups[i].layout);
  }
  if (groups.size() > kMaxLayouts)
    text += fmt::format("; {} other layouts", groups.size() - kMaxLayouts);
  return text.empty() ? "no parameters" : text;
}

/// How most floating-point operations are split: "97 % of the FLOPs: rows of the result split
/// over x (8 devices)".
std::string work_text(const Plan& plan) {
  std::map<std::string, double> flops_of;
  double all = 0;
  for (const StagePlan& stage : plan.stages)
    for (std::size_t n = 0; n < stage.graph.nodes.size(); ++n) {
      const Node& node = stage.graph.nodes[n];
      const Rule rule = rule_of(stage.graph, node);
      const double here = flops(rule) * runs_per_step(stage.graph, node);
      if (here <= 0) continue;
      flops_of[intra_op::strategy_text(rule, stage.plan.strategies[n], stage.plan.mesh)] += here;
      all += here;
    }
  if (flops_of.empty()) return "no FLOPs";
  const auto most = std::ranges::max_element(flops_of, {}, [](const auto& e) { return e.second; });
  return fmt::format("{:.0f} % of the FLOPs: {}", 100 * most->second / all, most->first);
}

const StagePlan& fullest(const Plan& plan) {
  return *std::ranges::max_element(plan.stages, {},
                                   [](const StagePlan& stage) { return stage.memory.total(); });
}

const StagePlan& slowest(const Plan& plan) {
  return *std::ranges::max_element(plan.stages, {}, [](const StagePlan& stage) {
    return stage.seconds.forward + stage.seconds.backward;
  });
}

/// FLOP/s of the data sheet of all devices; 0: the cluster does not say them.
double peak_of(const Subject& subject, const Graph& graph) {
  const auto& peaks = subject.cluster.device.peak_flops_per_second;
  const auto peak = peaks.find(programs::computed_in(graph));
  return peak == peaks.end() ? 0 : peak->second * subject.cluster.num_devices();
}

struct Speed {
  double flops_per_second = 0, share = 0, items_per_second = 0;
};

Speed speed_of(const Subject& subject, const CompiledStep& planned) {
  const double seconds = planned.plan.cost.objective_seconds;
  if (seconds <= 0) return {};
  Speed speed{useful_flops(planned.graph) / seconds, 0, subject.model.items / seconds};
  if (const double peak = peak_of(subject, planned.graph); peak > 0)
    speed.share = speed.flops_per_second / peak;
  return speed;
}

std::string speed_text(const Subject& subject, const CompiledStep& planned) {
  const Speed speed = speed_of(subject, planned);
  std::string text;
  if (!subject.model.item.empty())
    text += fmt::format("{:.0f} {}/s, ", speed.items_per_second, subject.model.item);
  text += fmt::format("{:.3g} PFLOP/s", speed.flops_per_second * 1e-15);
  const std::string_view dtype = name_of(programs::computed_in(planned.graph));
  return text + (speed.share > 0
                     ? fmt::format(", {:.1f} % of the devices' {} peak", 100 * speed.share, dtype)
                     : fmt::format(", the cluster says no {} peak", dtype));
}

std::string recomputed_line(const CompiledStep& planned) {
  const std::string text = recomputed_text(planned);
  return text.empty() ? "nothing" : text;
}

std::vector<std::string> row_of(const Subject& subject, const MethodResult& result,
                                double first_seconds) {
  if (!result.planned) return {result.method, "-", "-", "-", "-", "-", "-", result.failure};
  const CompiledStep& planned = *result.planned;
  const double seconds = planned.plan.cost.objective_seconds;
  return {result.method,
          seconds_text(seconds),
          first_seconds > 0 ? fmt::format("{:.2f}", seconds / first_seconds) : "-",
          fmt::format("{:.3g}", speed_of(subject, planned).flops_per_second * 1e-15),
          size_text(static_cast<double>(planned.memory_bytes)),
          std::to_string(planned.graph.num_micro_batches),
          seconds_text(result.planning_seconds),
          runs_text(planned.plan, mesh_text) + (result.tried.empty() ? "" : "; " + result.tried)};
}

/// Counts of the first device; the last row is their sum.
std::vector<lower::KindCount> counts_of(const CompiledStep& planned, const Cluster& cluster) {
  std::vector<lower::KindCount> rows = lower::count_step(
      *planned.program, planned.lowered->firsts.front(), cost::CostModel::of(cluster));
  rows.push_back(lower::total_of(rows));
  return rows;
}

Json counts_json(const CompiledStep& planned, const Cluster& cluster) {
  Json rows = Json::array();
  for (const lower::KindCount& row : counts_of(planned, cluster))
    rows.push_back({{"kind", row.kind},
                    {"launches", row.launches},
                    {"in_micro_batches", row.in_micro_batches},
                    {"bytes", row.bytes},
                    {"flops", row.flops},
                    {"seconds", row.seconds}});
  return rows;
}

}  // namespace

std::string memory_of_device_text(const Subject& subject, const CompiledStep& planned) {
  return fmt::format("{} of {} a device: {}", size_text(static_cast<double>(planned.memory_bytes)),
                     size_text(device_bytes(subject.flags, subject.cluster)),
                     alpa::memory_text(fullest(planned.plan).memory, size_text));
}

Json result_json(const Subject& subject, const MethodResult& result) {
  if (!result.planned) return {{"method", result.method}, {"failure", result.failure}};
  const CompiledStep& planned = *result.planned;
  const Speed speed = speed_of(subject, planned);
  Json json = summary_json(planned.plan, planned.memory_bytes);
  json.update({{"method", result.method},
               {"recomputed_layers", planned.recomputed().size()},
               {"items_per_second", speed.items_per_second},
               {"flops_per_second", speed.flops_per_second},
               {"share_of_peak", speed.share > 0 ? Json(speed.share) : Json()},
               {"planning_seconds", result.planning_seconds},
               {"tried", result.tried}});
  return json;
}

std::string plan_text(const Subject& subject, const CompiledStep& planned) {
  const Plan& plan = planned.plan;
  const StagePlan& slow = slowest(plan);
  const std::pair<const char*, std::string> lines[] = {
      {"model",
       fmt::format("{} on {}", subject.model.name, cluster_text(subject.flags, subject.cluster))},
      {"stages", stages_text(plan, planned.graph.num_micro_batches)},
      {"meshes", fmt::format("{}; {}", runs_text(plan, mesh_text), work_text(plan))},
      {"split", split_text(plan)},
      {"recomputed", recomputed_line(planned)},
      {"memory", memory_of_device_text(subject, planned)},
      {"seconds",
       fmt::format("{} a step; slowest stage {} forward and {} backward a micro-batch, {} a step",
                   seconds_text(plan.cost.objective_seconds), seconds_text(slow.seconds.forward),
                   seconds_text(slow.seconds.backward), seconds_text(slow.seconds.apply))},
      {"bubble", fmt::format("{:.1f} %", 100 * plan.bubble)},
      {"speed", speed_text(subject, planned)},
      {"proof",
       fmt::format("{}; planned in {}{}{}", proof_text(plan), seconds_text(planned.seconds),
                   planned.overtime.empty() ? "" : ": ", planned.overtime)}};
  std::string text;
  for (const auto& [label, words] : lines) {
    text += fmt::format("{:<12}{}\n", label, words);
    if (text.find('\n') + 1 == text.size() && !subject.model.imported.empty())
      text += fmt::format("{:<12}{}\n", "imported", subject.model.imported);
  }
  return text;
}

std::string counts_text(const CompiledStep& planned, const Cluster& cluster) {
  std::vector<std::vector<std::string>> rows = {
      {"kind", "launches", "in micro-batches", "GB", "TFLOP", "ms"}};
  for (const lower::KindCount& row : counts_of(planned, cluster))
    rows.push_back({row.kind, std::to_string(row.launches), std::to_string(row.in_micro_batches),
                    fmt::format("{:.3f}", row.bytes * 1e-9),
                    fmt::format("{:.4f}", row.flops * 1e-12),
                    fmt::format("{:.3f}", row.seconds * 1e3)});
  return programs::table_text(rows);
}

std::string methods_text(const Subject& subject, const std::vector<MethodResult>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"method", "step", "ratio", "PFLOP/s", "memory", "micro-batches", "planned in", "meshes"}};
  const auto& first = results.at(0).planned;
  for (const MethodResult& result : results)
    rows.push_back(row_of(subject, result, first ? first->plan.cost.objective_seconds : 0));
  return programs::table_text(rows);
}

Json report_json(const Subject& subject, const std::vector<MethodResult>& results) {
  Json compared = Json::array();
  for (std::size_t i = 1; i < results.size(); ++i)
    compared.push_back(result_json(subject, results[i]));
  Json report{{"model", subject.model.name},
              {"cluster", subject.flags.cluster},
              {"hosts", subject.cluster.num_hosts},
              {"devices", subject.cluster.num_devices()},
              {"device_bytes", device_bytes(subject.flags, subject.cluster)},
              {"item", subject.model.item},
              {"plan", result_json(subject, results.at(0))},
              {"compared", std::move(compared)}};
  if (subject.flags.counts) report["counts"] = counts_json(*results.at(0).planned, subject.cluster);
  return report;
}

}  // namespace plan
