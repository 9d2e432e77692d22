// bench_published: published step times of other systems beside the forecast of their plans, and
// these plans beside those that are found. Prices are a cluster file's; no devices
#include <alpa/alpa.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "arguments.h"
#include "published_rows.h"
#include "report.h"
#include "src/base/fnv.h"
#include "src/base/timing.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/stages.h"
#include "src/ir/subgraph.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/cost/transfer.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/evaluation/stage_seconds.h"
#include "src/report/pipeline_forecast.h"
#include "src/search/sharding/auto_shard.h"
#include "src/search/stages/cut_stages.h"
#include "src/search/stages/plan_stage.h"
#include "src/search/stages/stage_meshes.h"
#include "src/spmd/join_stages.h"

using namespace alpa;
using namespace alpa::bench;

namespace {

/// Two forecasts of the same plan differ by rounding alone.
constexpr double kSameSeconds = 1e-9;

struct Forecast {
  double seconds = 0, planning_seconds = 0;
  StageSeconds slowest;                 ///< of the stage that takes longest
  std::map<std::string, double> parts;  ///< of its step: by region and operator or collective
};

int sum_of(const std::vector<GivenStage>& stages, int GivenStage::*member) {
  int sum = 0;
  for (const GivenStage& stage : stages) sum += stage.*member;
  return sum;
}

Cluster cluster_of(const Row& row, const std::string& folder) {
  Cluster cluster = Cluster::from_file(folder + "/" + row.cluster);
  int devices = 0;
  for (const GivenStage& stage : row.stages) devices += stage.data * stage.tensor;
  const int hosts = (devices + cluster.devices_per_host - 1) / cluster.devices_per_host;
  cluster.num_hosts = hosts;
  return hosts == 1 ? cluster.submesh(1, devices) : cluster;
}

/// The stages with their graphs, on consecutive devices.
struct Cut {
  std::vector<StagePlan> stages;
  std::vector<BoundaryBatchDims> dims;
};
Cut cut(const Graph& graph, const Row& row) {
  Cut result;
  int layer = 0;
  const int layers = num_layers(graph), given = sum_of(row.stages, &GivenStage::layers);
  for (const GivenStage& stage : row.stages) {
    StagePlan plan;
    plan.first_layer = layer;
    if (result.stages.empty()) layer = layers - given;  // the first stage has what is left over
    layer += stage.layers;
    plan.last_layer = layer - 1;
    result.stages.push_back(std::move(plan));
  }
  result.dims = cut_into_stages(graph, result.stages);
  return result;
}

/// What stage s sends to the next one in each direction, priced for its own layouts.
double transfer_seconds(const StagePlan& from, const StagePlan& to, const Cluster& cluster) {
  double seconds = 0;
  for (const Input& input : to.graph.inputs) {
    if (input.kind != InputKind::boundary) continue;
    const TensorType& type = to.graph.type(input.value);
    if (type.rank() < 3) continue;
    const ShardingSpec& spec = to.plan.specs[input.value];
    bool forward = false;
    for (const Node& node : to.graph.nodes)
      if (node.region == Region::forward)
        forward |= std::count(node.operands.begin(), node.operands.end(), input.value) > 0;
    if (!forward) continue;
    // the sender has the same layout: equal stages
    const bool same = from.plan.mesh.axes() == to.plan.mesh.axes();
    const ShardingSpec source = same ? spec : ShardingSpec{};
    seconds += cost::plan_transfer(type, {from.plan.mesh, source}, {to.plan.mesh, spec}, cluster)
                   .cost.seconds;
  }
  return seconds;
}

/// Seconds of a step by region and operator, and by region and collective.
std::map<std::string, double> parts_of(const StagePlan& stage, const cost::CostModel& model) {
  const intra_op::GraphFacts facts(stage.graph);
  const intra_op::PartSeconds seconds = intra_op::part_seconds(stage.plan, facts, model);
  std::map<std::string, double> parts;
  const auto name = [](Region region, std::string_view what) {
    constexpr const char* kRegions[] = {"forward", "backward", "apply"};
    return fmt::format("{} {}", kRegions[static_cast<int>(region)], what);
  };
  for (std::size_t n = 0; n < seconds.nodes.size(); ++n)
    parts[name(stage.graph.nodes[n].region, stage.graph.nodes[n].op->name)] += seconds.nodes[n];
  for (std::size_t r = 0; r < seconds.reshards.size(); ++r) {
    const PlannedReshard& reshard = stage.plan.reshards[r];
    const Region region = region_of_use(stage.graph, reshard.uses.front());
    for (const ReshardStep& step : reshard.path.steps)
      parts[name(region, fmt::format("{} of {}", name_of(step.kind),
                                     to_string(stage.graph.type(reshard.value))))] +=
          intra_op::runs_of(reshard, stage.graph) * step.seconds;
  }
  return parts;
}

/// The stages of the row, each sharded as its degrees say.
Plan given_plan(const Row& row, const Graph& graph, const Cluster& cluster) {
  const cost::CostModel model = cost::CostModel::of(cluster);
  auto [stages, dims] = cut(graph, row);
  intra_op::PlanningCache cache;
  std::map<std::pair<std::uint64_t, int>, std::size_t> known;  // by graph and data degree
  int first = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const GivenStage& given = row.stages[s];
    std::vector<int> devices(given.data * given.tensor);
    std::iota(devices.begin(), devices.end(), first);
    first += static_cast<int>(devices.size());
    const DeviceMesh mesh =
        logical_meshes(cluster, submesh_of(cluster, static_cast<int>(devices.size())), devices,
                       {given.data, given.tensor})
            .front();
    const auto [place, added] =
        known.try_emplace({layer_hash(stages[s].graph), given.data * 1024 + given.tensor}, s);
    if (!added && stages[place->second].plan.mesh.axes() == mesh.axes()) {
      stages[s].plan = stages[place->second].plan;
      stages[s].plan.mesh = mesh;
      stages[s].seconds = stages[place->second].seconds;
      continue;
    }
    intra_op::AutoShardOptions options;
    options.method = "given";
    options.allowed.axis_uses = {given.data > 1 ? row.batch_use : AxisUse::any,
                                 given.tensor > 1 ? row.tensor_use : AxisUse::any};
    options.part.whole_boundary_inputs = true;
    options.part.boundary_batch_dims = dims[s];
    options.limits.seconds = 5;
    options.limits.relative_gap = 0.01;
    options.limits.effort = 0.01;
    stages[s].plan = intra_op::auto_shard(stages[s].graph, mesh, model, options, &cache);
    stages[s].seconds = stage_seconds(stages[s].plan, stages[s].graph, model);
  }
  Plan plan{.method = "given", .stages = std::move(stages)};
  plan.schedule = ScheduleKind::one_f_one_b;
  return plan;
}

Forecast forecast_of(const Row& row, const std::string& folder, bool with_parts) {
  const Stopwatch watch;
  const Cluster cluster = cluster_of(row, folder);
  Plan plan = given_plan(row, row.step.trace(row.micro_batches), cluster);
  for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    const double seconds = transfer_seconds(plan.stages[s], plan.stages[s + 1], cluster);
    const int from = static_cast<int>(s), to = from + 1;
    plan.transfers.push_back({.from = from, .to = to, .seconds = seconds});
    plan.transfers.push_back({.from = to, .to = from, .seconds = seconds});
  }
  Forecast result;
  result.seconds = forecast(plan).clocks;
  for (const StagePlan& stage : plan.stages)
    if (stage.seconds.forward + stage.seconds.backward >=
        result.slowest.forward + result.slowest.backward) {
      result.slowest = stage.seconds;
      if (with_parts) result.parts = parts_of(stage, cost::CostModel::of(cluster));
    }
  result.planning_seconds = watch.seconds();
  return result;
}

/// A plan as it is compared: its forecast by the schedule with the transfers of its program, as
/// after every search, and bytes of a device, as the planner counts them.
struct Priced {
  double seconds = 0;
  std::int64_t bytes = 0;
  std::string meshes = {};
};

Priced priced(Plan plan, const Graph& graph, const Cluster& cluster) {
  const int stages = static_cast<int>(plan.stages.size());
  plan.schedule = ScheduleKind::one_f_one_b;
  set_forecast(plan.stages, cost::CostModel::of(cluster));
  set_forecast(plan, spmd::partition(graph, plan, cluster), cluster);
  Priced result{.seconds = plan.cost.objective_seconds, .meshes = meshes_text(plan)};
  for (int s = 0; s < stages; ++s) {
    const StagePlan& stage = plan.stages[s];
    const int in_flight = pipeline::most_in_flight(ScheduleKind::one_f_one_b, stages - s - 1,
                                                   stages, graph.num_micro_batches);
    result.bytes =
        std::max(result.bytes, intra_op::counted_bytes(stage.plan, stage.graph).with(in_flight));
  }
  return result;
}

/// The plan that a search for stages finds.
struct Ours {
  Priced plan = {};
  double gap = 0, planning_seconds = 0;
  std::string failure = {};  ///< empty: there is a plan
};

Ours searched(const Row& row, const Cluster& cluster, double seconds) {
  PipeshardParallel method{.num_micro_batches = row.micro_batches, .stages = AutoStages{}};
  method.solver_seconds = seconds;
  const Stopwatch watch;
  try {
    const CompiledStep found = plan_only(row.step, method, cluster);
    return {priced(found.plan, found.graph, cluster), found.plan.cost.gap(), watch.seconds()};
  } catch (const Error& error) {
    return {.planning_seconds = watch.seconds(), .failure = error.what()};
  }
}

struct Group {
  std::vector<double> predicted, published;
};

double kendall_tau(const Group& group) {
  double score = 0, pairs = 0;
  for (std::size_t i = 0; i < group.predicted.size(); ++i)
    for (std::size_t j = 0; j < i; ++j, ++pairs)
      score +=
          (group.predicted[i] - group.predicted[j]) * (group.published[i] - group.published[j]) > 0
              ? 1
              : -1;
  return pairs > 0 ? score / pairs : 1;
}

void print_group(const std::string& name, const Group& group) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < group.predicted.size(); ++i)
    errors.push_back(std::abs(group.predicted[i] / group.published[i] - 1));
  const double worst = *std::max_element(errors.begin(), errors.end());
  print_row("group " + name, {{"rows", static_cast<double>(errors.size())},
                              {"median_error", median(errors)},
                              {"worst_error", worst},
                              {"kendall_tau", kendall_tau(group)}});
}

void run_rows(const std::string& table, const std::string& only, const std::string& clusters,
              bool fitted, bool parts) {
  std::map<std::string, Group> groups;
  for (const Row& row : published_rows(table)) {
    if (!only.empty() && row.group.find(only) == std::string::npos) continue;
    if (fitted && !row.fitted) continue;
    try {
      const Forecast f = forecast_of(row, clusters, parts);
      for (const auto& [part, seconds] : f.parts)
        if (seconds > f.seconds / 200)
          fmt::print(stderr, "{} {}: {} {:.4f}\n", row.group, row.name, part, seconds);
      print_row(row.name,
                {{"predicted", f.seconds},
                 {"published", row.seconds},
                 {"ratio", f.seconds / row.seconds},
                 {"forward", f.slowest.forward},
                 {"backward", f.slowest.backward},
                 {"apply", f.slowest.apply},
                 {"planning_seconds", f.planning_seconds}},
                {}, {{"group", row.group}, {"rows", row.fitted ? "fitted" : "checked"}});
      const std::string part = row.group + (row.fitted ? ", fitted" : ", checked");
      groups[part].predicted.push_back(f.seconds);
      groups[part].published.push_back(row.seconds);
    } catch (const Error& error) {
      fmt::print(stderr, "{} {}: {}\n", row.group, row.name, error.what());
    }
  }
  for (const auto& [name, group] : groups) print_group(name, group);
}

/// Given plans and ours in one count.
struct Comparison {
  std::vector<double> ratios = {};  ///< ours / given
  int without_plan = 0, given_too_large = 0;
};

void print_comparison(const std::string& name, const Comparison& comparison) {
  const auto& ratios = comparison.ratios;
  const auto not_dearer = std::count_if(ratios.begin(), ratios.end(),
                                        [](double ratio) { return ratio <= 1 + kSameSeconds; });
  const double worst = ratios.empty() ? 0 : *std::max_element(ratios.begin(), ratios.end());
  print_row("group " + name,
            {{"rows", static_cast<double>(ratios.size())},
             {"not_dearer", static_cast<double>(not_dearer)},
             {"median_ratio", ratios.empty() ? 0 : median(ratios)},
             {"worst_ratio", worst},
             {"without_plan", static_cast<double>(comparison.without_plan)},
             {"given_too_large", static_cast<double>(comparison.given_too_large)}});
}

/// Every given plan beside the one that is found with as many micro-batches, in so many seconds.
/// Rows of the same step on the same devices are planned once.
void compare_rows(const std::string& table, const std::string& only, const std::string& clusters,
                  double seconds) {
  std::map<std::string, Ours> known;
  std::map<std::string, Comparison> groups;
  for (const Row& row : published_rows(table)) {
    if (!only.empty() && row.group.find(only) == std::string::npos) continue;
    try {
      const Cluster cluster = cluster_of(row, clusters);
      const Graph graph = row.step.trace(row.micro_batches);
      const Priced given = priced(given_plan(row, graph, cluster), graph, cluster);
      const std::string key =
          fmt::format("{:016x} {} {}", fnv1a(to_string(graph)), row.cluster, cluster.num_devices());
      const auto [place, added] = known.try_emplace(key);
      if (added) place->second = searched(row, cluster, seconds);
      const Ours& ours = place->second;
      Comparison& group = groups[row.group];
      const bool too_large = given.bytes > cluster.device.memory_bytes;
      group.given_too_large += too_large ? 1 : 0;
      Labels labels{
          {"group", row.group}, {"given_meshes", given.meshes}, {"our_meshes", ours.plan.meshes}};
      std::vector<Figure> figures{
          {"micro_batches", static_cast<double>(row.micro_batches)},
          {"given_seconds", given.seconds},
          {"given_bytes", static_cast<double>(given.bytes)},
          {"device_bytes", static_cast<double>(cluster.device.memory_bytes)},
          {"planning_seconds", ours.planning_seconds}};
      if (!ours.failure.empty()) {
        ++group.without_plan;
        labels.emplace_back("failure", ours.failure);
      } else {
        const double ratio = ours.plan.seconds / given.seconds;
        group.ratios.push_back(ratio);
        figures.insert(figures.end(), {{"our_seconds", ours.plan.seconds},
                                       {"our_bytes", static_cast<double>(ours.plan.bytes)},
                                       {"ratio", ratio},
                                       {"gap", ours.gap}});
      }
      print_row(row.name, figures, {}, labels);
    } catch (const Error& error) {
      fmt::print(stderr, "{} {}: {}\n", row.group, row.name, error.what());
    }
  }
  for (const auto& [name, comparison] : groups) print_comparison(name, comparison);
}

}  // namespace

int main(int argc, char** argv) {
  std::string table, group, clusters = "clusters/published";
  bool fitted = false, parts = false, ours = false;
  double seconds = 20;
  return run(argc, argv, "Published step times beside their forecast, or given plans beside ours.",
             {cli::text("TABLE", &table, "CSV of iterations on one host"),
              cli::text("--group", &group, "Only groups with this in their name"),
              cli::text("--clusters", &clusters, "Folder of the cluster files"),
              cli::on("--parts", &parts, "Also what takes the slowest stage's time"),
              cli::on("--fitted", &fitted, "Only rows on which constants were fitted"),
              cli::on("--ours", &ours, "Given plans beside those of a search, at equal prices"),
              cli::positive_number("--seconds", &seconds, "Time limit of a search")},
             [&] {
               if (ours)
                 compare_rows(table, group, clusters, seconds);
               else
                 run_rows(table, group, clusters, fitted, parts);
             });
}
