// bench_published: published step times of other systems beside the forecast of their plans. Models
// are the zoo's, plans the given degrees of parallelism, prices a cluster file's; no devices
#include <alpa/alpa.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <sstream>

#include "arguments.h"
#include "models/gpt.h"
#include "models/moe.h"
#include "models/wide_resnet.h"
#include "report.h"
#include "src/base/timing.h"
#include "src/cost/cost_model.h"
#include "src/cost/transfer.h"
#include "src/inter_op/cut_stages.h"
#include "src/inter_op/stage_meshes.h"
#include "src/inter_op/stage_seconds.h"
#include "src/intra_op/plan/evaluate.h"
#include "src/intra_op/search/auto_shard.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/rule.h"
#include "src/ir/stages.h"
#include "src/ir/subgraph.h"
#include "src/report/pipeline_forecast.h"

using namespace alpa;

namespace {

/// Devices of a stage as data x tensor, and how many layers of the model it has.
struct GivenStage {
  int layers = 0, data = 1, tensor = 1;
};

/// A published time, and the plan that it belongs to.
struct Row {
  std::string group, name, cluster;
  TrainingStep step;
  int micro_batches = 1;
  std::vector<GivenStage> stages;
  double seconds = 0;   ///< published
  bool fitted = false;  ///< constants were fitted on this row
  intra_op::AxisUse batch_use = intra_op::AxisUse::data, tensor_use = intra_op::AxisUse::tensor;
};

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

Forecast forecast_of(const Row& row, const std::string& folder, bool with_parts) {
  const Stopwatch watch;
  const Cluster cluster = cluster_of(row, folder);
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Graph graph = row.step.trace(row.micro_batches);
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
    options.allowed.axis_uses = {given.data > 1 ? row.batch_use : intra_op::AxisUse::any,
                                 given.tensor > 1 ? row.tensor_use : intra_op::AxisUse::any};
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
      if (with_parts) result.parts = parts_of(stage, model);
    }
  result.planning_seconds = watch.seconds();
  return result;
}

std::vector<GivenStage> equal_stages(int data, int tensor, int pipeline, int layers) {
  return std::vector<GivenStage>(pipeline, {layers / pipeline, data, tensor});
}

/// In a pipeline the head is a table of its own, as Megatron-LM's last stage holds a copy of the
/// embedding.
TrainingStep gpt_step(const models::DecoderOptions& options, std::int64_t batch,
                      Precision precision) {
  const models::Decoder decoder(options);
  const TensorType tokens{i32, {batch, options.sequence}};
  return training_step({{"tokens", tokens}, {"labels", tokens}},
                       [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
                       optim::AdamW{}, {.precision = precision});
}

/// 206 iterations of Megatron-DeepSpeed on A100 of one host.
void add_one_host(const std::string& file, std::vector<Row>& rows) {
  std::ifstream stream(file);
  require(stream.good(), "cannot read {}", file);
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    int gpus = 0, batch = 0, micro = 0, hidden = 0, heads = 0, layers = 0, sequence = 0, t = 1,
        d = 1, p = 1;
    double ms = 0;
    fields >> gpus >> batch >> micro >> hidden >> heads >> layers >> sequence >> t >> d >> p >> ms;
    require(!fields.fail() && d * t * p == gpus, "{}: bad row '{}'", file, line);
    const models::DecoderOptions options{.layers = layers,
                                         .hidden = hidden,
                                         .heads = heads,
                                         .sequence = sequence,
                                         .head_bias = false,
                                         .tied_head = p == 1};
    rows.push_back({"a100 one host",
                    fmt::format("{}x{}x{} B{} b{} {}x{}", d, t, p, batch, micro, hidden, layers),
                    "a100_megatron_deepspeed.json", gpt_step(options, batch, bf16_mixed),
                    batch / micro / d, equal_stages(d, t, p, layers), ms / 1e3,
                    rows.size() % 4 == 0});
  }
}

struct OneFlow {
  int data, tensor, pipeline, batch, hidden, layers, heads, micro_batches;
  double ms;
};
/// github Oneflow-Inc/DLPerf, OneFlow GPT report: activations recomputed, f16, 4 x 8 V100-16GB.
constexpr OneFlow kOneFlow[] = {
    {1, 1, 1, 2, 1536, 16, 16, 1, 406.16},      {8, 1, 1, 16, 1536, 16, 16, 1, 417.95},
    {16, 1, 1, 32, 1536, 16, 16, 1, 489.67},    {32, 1, 1, 64, 1536, 16, 16, 1, 518.64},
    {1, 1, 1, 8, 768, 12, 12, 1, 525.21},       {1, 8, 1, 16, 1536, 16, 16, 1, 642.13},
    {2, 4, 1, 16, 1536, 16, 16, 1, 539.69},     {4, 2, 1, 16, 1536, 16, 16, 1, 543.88},
    {1, 16, 1, 16, 3072, 16, 32, 1, 4819.29},   {1, 32, 1, 16, 3072, 32, 32, 1, 9505.83},
    {2, 8, 1, 16, 2304, 24, 24, 1, 1268.53},    {4, 8, 1, 32, 2304, 24, 24, 1, 1480.34},
    {8, 1, 4, 512, 1536, 16, 16, 32, 4006.31},  {1, 8, 4, 512, 2304, 24, 24, 32, 19196.65},
    {2, 4, 4, 512, 2304, 24, 24, 32, 13117.18}, {2, 8, 2, 512, 2304, 24, 24, 32, 14375.35}};

void add_oneflow(std::vector<Row>& rows) {
  for (const OneFlow& o : kOneFlow) {
    const models::DecoderOptions options{.layers = o.layers,
                                         .hidden = o.hidden,
                                         .heads = o.heads,
                                         .sequence = 2048,
                                         .head_bias = false,
                                         .tied_head = o.pipeline == 1,
                                         .remat = true};
    const bool one_host = o.data * o.tensor * o.pipeline <= 8;
    rows.push_back({one_host ? "v100 one host" : "v100 hosts",
                    fmt::format("{}x{}x{} B{} {}x{}", o.data, o.tensor, o.pipeline, o.batch,
                                o.hidden, o.layers),
                    "v100_oneflow.json", gpt_step(options, o.batch, f16_mixed), o.micro_batches,
                    equal_stages(o.data, o.tensor, o.pipeline, o.layers), o.ms / 1e3,
                    one_host || o.data * o.tensor * o.pipeline == 16});
  }
}

struct Selective {
  const char* name;
  int tensor, pipeline, batch, micro_batch, hidden, layers, heads;
  double full, selective;  ///< seconds
};
/// arXiv 2205.05198, tables 3 and 5; no data parallelism.
constexpr Selective kSelective[] = {{"22B", 8, 1, 4, 4, 6144, 48, 64, 1.42, 1.10},
                                    {"175B", 8, 8, 64, 1, 12288, 96, 96, 18.13, 13.75},
                                    {"530B", 8, 35, 280, 1, 20480, 105, 128, 49.05, 37.83},
                                    {"1T", 8, 64, 512, 1, 25600, 128, 160, 94.42, 71.49}};

void add_selective(std::vector<Row>& rows) {
  for (const Selective& s : kSelective)
    for (const bool full : {true, false}) {
      const models::DecoderOptions options{.layers = s.layers,
                                           .hidden = s.hidden,
                                           .heads = s.heads,
                                           .sequence = 2048,
                                           .head_bias = false,
                                           .tied_head = s.pipeline == 1,
                                           .remat = full};
      rows.push_back({"a100 hosts", fmt::format("{} {}", s.name, full ? "full" : "selective"),
                      "a100_selene.json", gpt_step(options, s.batch, f16_mixed),
                      s.batch / s.micro_batch, equal_stages(1, s.tensor, s.pipeline, s.layers),
                      full ? s.full : s.selective});
    }
}

/// Alpa's quickstart: five times 2048 -> 8192 -> 2048 with relu, f32, Adam, batch 2048.
void add_tutorial(std::vector<Row>& rows) {
  const TensorType type{f32, {2048, 2048}};
  const TrainingStep step = training_step(
      {{"x", type}, {"y", type}},
      [](const Batch& batch) -> LossAndMetrics {
        nn::Sequential model;
        for (int i = 0; i < 10; ++i) model.add(nn::Dense(i % 2 == 0 ? 8192 : 2048)).add(nn::ReLU());
        return mean(square(model(batch["x"]) - batch["y"]));
      },
      optim::Adam{});
  const auto add = [&](const char* name, int data, int tensor, double ms) {
    rows.push_back({"tutorial",
                    name,
                    "p3_alpa.json",
                    step,
                    1,
                    {{1, data, tensor}},
                    ms / 1e3,
                    data * tensor == 1});
  };
  add("serial", 1, 1, 150.57);
  add("data parallel", 8, 1, 33.55);
  add("alpa", 1, 8, 22.85);
}

struct AlpaRow {
  const char* name;
  int micro_batches, batch;
  std::vector<GivenStage> stages;
  double flop, petaflops;  ///< of a step with rematerialisation; per second
};

void add_alpa_gpt(std::vector<Row>& rows) {
  const auto equal = [](int n, GivenStage stage) { return std::vector<GivenStage>(n, stage); };
  const std::vector<AlpaRow> published{
      {"350M", 512, 1024, {{24, 1, 1}}, 3.285341e15, .048},
      {"1.3B", 128, 1024, equal(2, {12, 2, 1}), 1.163723e16, .21},
      {"2.6B", 128, 1024, {{8, 2, 1}, {8, 2, 1}, {16, 4, 1}}, 2.334263e16, .47},
      {"6.7B", 64, 1024, equal(2, {16, 2, 4}), 5.761441e16, .94},
      {"15B", 128, 1024, equal(4, {12, 2, 4}), 1.325351e17, 1.89},
      {"39B", 1024, 1024, equal(16, {3, 1, 4}), 3.336534e17, 3.62}};
  for (const AlpaRow& row : published) {
    const auto size = std::find_if(models::kGptSizes.begin(), models::kGptSizes.end(),
                                   [&](const auto& s) { return s.name == row.name; });
    const models::DecoderOptions options{.layers = size->layers,
                                         .hidden = size->hidden,
                                         .heads = size->heads,
                                         .tied_head = row.stages.size() == 1,
                                         .remat = true};
    rows.push_back({"alpa gpt", row.name, "p3_alpa.json", gpt_step(options, row.batch, f16_mixed),
                    row.micro_batches, row.stages, row.flop / row.petaflops / 1e15, false,
                    intra_op::AxisUse::batch});
  }
}

void add_alpa_moe(std::vector<Row>& rows) {
  const auto equal = [](int n, GivenStage stage) { return std::vector<GivenStage>(n, stage); };
  const std::vector<AlpaRow> published{{"380M", 512, 1024, {{8, 1, 1}}, 1.579929e15, .046},
                                       {"1.3B", 32, 1024, equal(2, {8, 2, 1}), 3.005652e15, .15},
                                       {"2.4B", 32, 1024, equal(2, {8, 4, 1}), 4.992607e15, .35},
                                       {"10B", 16, 1024, equal(2, {8, 8, 1}), 1.044591e16, .71},
                                       {"27B", 128, 1024, equal(8, {2, 4, 1}), 1.787064e16, 1.22},
                                       {"70B", 64, 1024, equal(8, {4, 8, 1}), 3.533336e16, 2.32}};
  for (const AlpaRow& row : published) {
    const auto size = std::find_if(models::kMoeSizes.begin(), models::kMoeSizes.end(),
                                   [&](const auto& s) { return s.name == row.name; });
    const models::MoeDecoder decoder({.layers = size->layers,
                                      .hidden = size->hidden,
                                      .heads = size->heads,
                                      .experts = size->experts,
                                      .remat = true});
    const TensorType tokens{i32, {row.batch, 1024}};
    rows.push_back(
        {"alpa moe", row.name, "p3_alpa.json",
         training_step({{"tokens", tokens}, {"labels", tokens}},
                       [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
                       optim::Adafactor{}, {.precision = f16_mixed}),
         row.micro_batches, row.stages, row.flop / row.petaflops / 1e15, false,
         intra_op::AxisUse::any});
  }
}

/// Floating-point operations of a step, forward, backward and again, of products and convolutions.
double flops_of(const TrainingStep& step, int micro_batches) {
  const Graph graph = step.trace(micro_batches);
  double sum = 0;
  for (const Node& node : graph.nodes)
    if (node.op->work == Work::heavy && node.region != Region::apply)
      sum += flops(rule_of(graph, node));
  return sum * micro_batches;
}

void add_alpa_wide_resnet(std::vector<Row>& rows) {
  struct Published {
    const char* name;
    int micro_batches, batch;
    std::vector<GivenStage> stages;
    double petaflops;
  };
  // Layers here are 17 or 34 blocks with the stem in the first; Alpa's are 16 or 33.
  const std::vector<Published> published{
      {"250M", 24, 1536, {{16, 1, 1}}, .0084},
      {"1B", 24, 1536, {{16, 1, 4}}, .029},
      {"2B", 24, 1536, {{8, 4, 1}, {8, 1, 4}}, .060},
      {"4B", 32, 1536, {{5, 4, 1}, {4, 4, 1}, {7, 8, 1}}, .106},
      {"6.8B", 32, 1536, {{5, 8, 1}, {4, 8, 1}, {4, 8, 1}, {3, 8, 1}}, .208},
      {"13B",
       38,
       1520,
       {{4, 8, 1}, {4, 1, 8}, {4, 8, 1}, {4, 1, 8}, {4, 8, 1}, {4, 8, 1}, {5, 1, 8}, {4, 8, 1}},
       .335}};
  for (const Published& row : published) {
    models::WideResNetSize size = models::wide_resnet_sizes().at(row.name);
    size.remat = true;
    const TrainingStep step = training_step(
        {{"images", {f32, {row.batch, 224, 224, 3}}}, {"labels", {i32, {row.batch}}}},
        [size](const Batch& batch) {
          return nn::cross_entropy(models::wide_resnet(size)(batch["images"]), batch["labels"]);
        },
        optim::Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
    rows.push_back({"alpa wide-resnet", row.name, "p3_alpa.json", step, row.micro_batches,
                    row.stages, flops_of(step, row.micro_batches) / row.petaflops / 1e15, false,
                    intra_op::AxisUse::any});
    rows.back().tensor_use = intra_op::AxisUse::any;
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
  bench::print_row("group " + name, {{"rows", static_cast<double>(errors.size())},
                                     {"median_error", median(errors)},
                                     {"worst_error", worst},
                                     {"kendall_tau", kendall_tau(group)}});
}

void run_rows(const std::string& table, const std::string& only, const std::string& clusters,
              bool fitted, bool parts) {
  std::vector<Row> rows;
  add_one_host(table, rows);
  add_oneflow(rows);
  add_selective(rows);
  add_tutorial(rows);
  add_alpa_gpt(rows);
  add_alpa_moe(rows);
  add_alpa_wide_resnet(rows);
  std::map<std::string, Group> groups;
  for (const Row& row : rows) {
    if (!only.empty() && row.group.find(only) == std::string::npos) continue;
    if (fitted && !row.fitted) continue;
    try {
      const Forecast f = forecast_of(row, clusters, parts);
      for (const auto& [part, seconds] : f.parts)
        if (seconds > f.seconds / 200)
          fmt::print(stderr, "{} {}: {} {:.4f}\n", row.group, row.name, part, seconds);
      bench::print_row(row.name,
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

}  // namespace

int main(int argc, char** argv) {
  std::string table, group, clusters = "clusters/published";
  bool fitted = false, parts = false;
  return bench::run(argc, argv, "Published step times beside their forecast.",
                    {cli::text("TABLE", &table, "CSV of iterations on one host"),
                     cli::text("--group", &group, "Only groups with this in their name"),
                     cli::text("--clusters", &clusters, "Folder of the cluster files"),
                     cli::on("--parts", &parts, "Also what takes the slowest stage's time"),
                     cli::on("--fitted", &fitted, "Only rows on which constants were fitted")},
                    [&] { run_rows(table, group, clusters, fitted, parts); });
}
