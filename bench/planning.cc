// Seconds of the processor for planning by phase, from the training step to the device programs of
// all ranks: how they grow with the number of equal layers, and the peak memory of the process.
//   bench_planning CLUSTER_FILE [--model MODEL] [--layers N] [--rounds N]
// With --plan-only up to the plan alone, for part of the cluster (--devices 8, 2x4, 8x8) as one
// mesh, beside the planner's counters: a point of the curve of scripts/planning_curve.
// With --method pipeline: from the training step to the plans of stages that are searched for, each
// layer a layer of the pipeline; what is proven of them, and the best equal stages beside them.
//   bench_planning CLUSTER_FILE --method pipeline [--hosts N] [--micro-batches N] …
// With --method given: plans with stages that such models were trained with, on as many hosts of
// the cluster's kind (--model 1T: Megatron-LM, arXiv 2205.05198, table 5; 175B: on 1,024 devices;
// 405B: Llama 3 on 16,384, arXiv 2407.21783, table 4). --stages gives another number of stages, and
// leaves their meshes to the planner; --interleaved gives each device 2 stages.
// With --model encoder-decoder: one whose layers, stages and number of micro-batches the planner
// chooses, from the training step to the programs, on 2 to 8 devices of a local cluster.
//   bench_planning CLUSTER_FILE --method pipeline --model encoder-decoder
// With --method lowering: seconds from a plan to the verified instruction lists of all devices,
// with memory planned, for stacks of GPT-like layers under ZeRO-3 on 8 devices of a local cluster.
// CLUSTER_FILE: 8 hosts of 8 devices, e.g. clusters/a100_8x8.json. One case a process, so that the
// memory is that of the case.
#include <alpa/alpa.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "alpa/models/gpt.h"
#include "alpa/models/moe.h"
#include "arguments.h"
#include "report.h"
#include "src/compile/stage_planner.h"
#include "src/compile/trace.h"
#include "src/lower/memory_plan.h"
#include "src/lower/rank_classes.h"
#include "src/plan/cost/cost_model.h"
#include "src/runtime/executor.h"
#include "src/search/sharding/auto_shard.h"
#include "tests/support/encoder_decoder.h"
#include "tests/support/gpt_stack.h"
#include "tests/support/planning_suite.h"

using namespace alpa;

namespace {

/// Every second layer is four times as wide.
TrainingStep mlp_step(int layers, std::int64_t dim, std::int64_t batch) {
  std::vector<nn::Dense> dense;
  for (int i = 0; i < layers; ++i) dense.emplace_back(i % 2 == 0 ? 4 * dim : dim);
  const TensorType type{f32, {batch, dim}};
  const auto loss = [dense](const Batch& b) {
    Value h = b["x"];
    for (std::size_t i = 0; i < dense.size(); ++i) {
      h = relu(dense[i](h));
      if (i + 1 < dense.size()) h = mark_pipeline_boundary(h);
    }
    return mean(square(h - b["y"]));
  };
  return training_step({{"x", type}, {"y", type}}, loss, optim::Adam{});
}

/// The one of alpa-mlp with --hidden-factor 1: its layers are not marked.
TrainingStep dense_step(int layers) {
  constexpr std::int64_t kDim = 1024, kBatch = 1024;
  nn::Sequential mlp;
  for (int i = 0; i < layers; ++i) mlp.add(nn::Dense(kDim)).add(nn::ReLU());
  const TensorType type{f32, {kBatch, kDim}};
  const auto loss = [mlp](const Batch& b) { return nn::mean_squared_error(mlp(b["x"]), b["y"]); };
  return training_step({{"x", type}, {"y", type}}, loss, optim::Adam{});
}

/// Those of alpa-gpt and alpa-moe.
template <class Decoder, class Options>
TrainingStep decoder_step(Options options, int layers) {
  constexpr std::int64_t kBatch = 64, kSequence = 256;
  options.layers = layers, options.sequence = kSequence;
  options.hidden = 1024, options.heads = 16, options.vocabulary = 51200;
  const TensorType tokens{i32, {kBatch, kSequence}};
  const auto loss = [model = Decoder(options)](const Batch& b) {
    return model.loss(b["x"], b["y"]);
  };
  return training_step({{"x", tokens}, {"y", tokens}}, loss, optim::Adam{});
}

/// Seconds of the processor since the last call, as a figure: other programs on
/// the machine disturb little.
class Clock {
 public:
  bench::Figure lap(std::string name) {
    const std::clock_t now = std::clock();
    return {std::move(name), static_cast<double>(now - std::exchange(last_, now)) / CLOCKS_PER_SEC};
  }

 private:
  std::clock_t last_ = std::clock();
};

double peak_gigabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1e6;
}

/// The passes of src/api/parallelize.cc, one by one.
std::vector<bench::Figure> phases(const TrainingStep& step,
                                  const intra_op::AutoShardOptions& method,
                                  const Cluster& cluster) {
  std::vector<bench::Figure> figures;
  Clock clock;
  double total = 0;
  const auto done = [&](const char* name) {
    figures.push_back(clock.lap(name));
    total += figures.back().value;
  };
  const Graph graph = step.trace(1);
  done("trace");
  verify(graph);
  done("verify_graph");
  intra_op::AutoSharding search(graph, {cluster.mesh({8, 8})}, cost::CostModel::of(cluster),
                                method);
  const ShardingPlan plan = search.plan();
  done("plan");
  verify(plan, graph);
  done("verify_plan");
  const spmd::SpmdProgram partitioned = spmd::partition(graph, plan);
  done("partition");
  verify(partitioned);
  done("verify_partitioned");
  const spmd::SpmdProgram fused = spmd::fuse_elementwise(partitioned);
  done("fuse");
  const spmd::SpmdProgram program = spmd::bucket_collectives(fused, 1 << 20);
  done("bucket");
  verify(fused);
  verify(program);
  done("verify_programs");
  const lower::LoweredProgram lowered =
      lower::lower_program(program, {.threads_per_device = 1, .overlap = Overlap::always}, "cpu");
  done("lower");
  const std::vector<lower::DeviceProgram> devices = lower::programs_of_all(program, lowered.firsts);
  done("all_ranks");
  std::int64_t bytes = 0;
  for (const lower::DeviceProgram& device : devices) bytes = std::max(bytes, device.arena_bytes);
  figures.push_back({"total", total});
  figures.push_back({"nodes", static_cast<double>(program.graph.nodes.size())});
  figures.push_back({"objective_seconds", plan.cost.objective_seconds});
  figures.push_back({"planned_bytes", static_cast<double>(bytes)});
  return figures;
}

struct Settings {
  std::string cluster_file, model = "mlp", method = "shard", devices = "8x8";
  int layers = 96, rounds = 1, hosts = 8, micro_batches = 16, stages = 0;
  bool plan_only = false, interleaved = false;
};

TrainingStep step_of(const Settings& settings) {
  // 512 rows of the GPT in micro-batches keep each device of a stage busy.
  const std::int64_t rows = settings.method == "pipeline" ? 512 : 64;
  if (settings.model == "gpt") return testing::gpt_step({.layers = settings.layers, .batch = rows});
  if (settings.model == "dense") return dense_step(settings.layers);
  if (settings.model == "residual-mlp")
    return testing::residual_mlp_step({.layers = settings.layers});
  if (settings.model == "decoder")
    return decoder_step<models::Decoder>(models::DecoderOptions{}, settings.layers);
  if (settings.model == "experts")
    return decoder_step<models::MoeDecoder>(models::MoeDecoderOptions{}, settings.layers);
  return mlp_step(settings.layers, 4096, 4096);
}

void measure_shards(const Settings& settings) {
  const Cluster cluster = Cluster::from_file(settings.cluster_file);
  const TrainingStep step = step_of(settings);
  const intra_op::AutoShardOptions method =
      settings.model == "gpt" ? intra_op::zero3_options() : intra_op::AutoShardOptions{};
  for (int round = 0; round < settings.rounds; ++round) {
    std::vector<bench::Figure> figures = phases(step, method, cluster);
    figures.push_back({"peak_gigabytes", peak_gigabytes()});
    bench::print_row(fmt::format("{} {} layers on 8x8", settings.model, settings.layers), figures);
  }
}

/// Tracing and planning of one mesh, of the shape of `devices`.
void measure_plan(const Settings& settings) {
  const Cluster whole = Cluster::from_file(settings.cluster_file);
  const std::vector<int> shape = parse_mesh_shape(settings.devices);
  const Cluster cluster =
      shape.size() == 1 ? whole.submesh(1, shape[0]) : whole.submesh(shape[0], shape[1]);
  const TrainingStep step = step_of(settings);
  for (int round = 0; round < settings.rounds; ++round) {
    Clock clock;
    const Graph graph = step.trace(1);
    std::vector<bench::Figure> figures = {clock.lap("trace")};
    intra_op::AutoShardOptions method;
    method.limits.seconds = 3600;  // of work
    intra_op::AutoSharding search(graph, {cluster.mesh(shape)}, cost::CostModel::of(cluster),
                                  method);
    const ShardingPlan plan = search.plan();
    figures.push_back(clock.lap("plan"));
    figures.push_back({"plan_per_layer", figures.back().value / settings.layers});
    figures.push_back({"gigacells", plan.statistics.solve_seconds});
    figures.push_back({"gap_percent", 100 * plan.cost.gap()});
    figures.push_back({"objective_seconds", plan.cost.objective_seconds});
    figures.push_back({"nodes", static_cast<double>(graph.nodes.size())});
    figures.push_back({"peak_gigabytes", peak_gigabytes()});
    bench::print_row(
        fmt::format("{} {} layers on {}", settings.model, settings.layers, settings.devices),
        figures);
  }
}

struct PlannedStages {
  PlanningProgress last;  ///< best and bound as the search counts them
  std::vector<StagePlan> stages;
  double processor_seconds = 0;
};

PlannedStages plan(const Settings& settings, const TrainingStep& step,
                   std::variant<UniformStages, ManualStages, AutoStages> stages,
                   const Cluster& cluster) {
  PlannedStages result;
  PipeshardParallel method;
  method.num_micro_batches = settings.micro_batches;
  method.stages = std::move(stages);
  method.progress = [&](const PlanningProgress& now) { result.last = now; };
  MethodOptions options = options_of(method);
  Clock clock;
  options.begin_planning();
  const Graph graph = trace(step, options);
  StagePlanner planner(graph, options, cluster, {});
  planner.choose(memory_budget(options, cluster));
  result.stages = planner.plan({});
  result.processor_seconds = clock.lap("").value;
  return result;
}

/// sum + (micro-batches - 1) x slowest, without transfers.
double seconds_of(const std::vector<StagePlan>& stages, int micro_batches) {
  double sum = 0, most = 0;
  for (const StagePlan& stage : stages) {
    const double seconds = stage.plan.cost.objective_seconds / micro_batches;
    sum += seconds;
    most = std::max(most, seconds);
  }
  return sum + (micro_batches - 1) * most;
}

void measure_stages(const Settings& settings) {
  const Cluster whole = Cluster::from_file(settings.cluster_file);
  const Cluster cluster = whole.submesh(settings.hosts, whole.devices_per_host);
  const TrainingStep step = step_of(settings);
  for (int round = 0; round < settings.rounds; ++round) {
    const PlannedStages found = plan(settings, step, AutoStages{}, cluster);
    std::vector<bench::Figure> figures = {
        {"processor_seconds", found.processor_seconds},
        {"stages", static_cast<double>(found.stages.size())},
        {"step_seconds", found.last.best_seconds},
        {"bound_seconds", found.last.lower_bound_seconds},
        {"gap", found.last.gap()},
        {"searches", static_cast<double>(found.last.searches)},
        {"ranges", static_cast<double>(found.last.ranges)},
        {"seconds_without_transfers", seconds_of(found.stages, settings.micro_batches)}};
    for (int count = 1; count <= std::min(settings.layers, cluster.num_devices()); count *= 2)
      figures.push_back({fmt::format("{}_equal_stages_without_transfers", count),
                         seconds_of(plan(settings, step, UniformStages{count}, cluster).stages,
                                    settings.micro_batches)});
    bench::print_row(
        fmt::format("{} {} layers on {}x{}, {} micro-batches", settings.model, settings.layers,
                    settings.hosts, whole.devices_per_host, settings.micro_batches),
        figures);
  }
}

/// A decoder, and the degrees of its parallelism.
struct Published {
  std::string_view name;
  models::DecoderOptions model;
  std::int64_t batch;
  int data, tensor, pipeline, micro_batches;
};
const Published kPublished[] = {
    {"1T", {.layers = 128, .hidden = 25600, .heads = 160, .sequence = 2048}, 512, 1, 8, 64, 512},
    {"175B", {.layers = 96, .hidden = 12288, .heads = 96, .sequence = 2048}, 1536, 8, 8, 16, 192},
    {"405B",
     {.kind = models::DecoderKind::llama,
      .layers = 126,
      .hidden = 16384,
      .heads = 128,
      .key_heads = 8,
      .sequence = 8192,
      .vocabulary = 128256,
      .feed_forward = 53248,
      .tied_head = false},
     2048,
     128,
     8,
     16,
     16}};

const Published& published_of(const Settings& settings) {
  for (const Published& published : kPublished)
    if (published.name == settings.model) return published;
  fail("--method given: --model is '{}'; give 1T, 175B or 405B", settings.model);
}

PipeshardParallel method_of(const Settings& settings, const Published& given) {
  PipeshardParallel method =
      parallel_3d(given.data, given.tensor, given.pipeline, given.micro_batches);
  const int per_part = settings.interleaved ? 2 : 1;
  UniformStages stages{.count = given.pipeline * per_part, .stages_per_part = per_part};
  if (settings.stages > 0) {
    stages.count = settings.stages * per_part;
    method.mesh_shape = {};
    method.batch_mesh_axis = {};
  }
  if (settings.interleaved) method.schedule = ScheduleKind::interleaved_one_f_one_b;
  method.layers = AutoLayers{stages.count};
  method.stages = stages;
  return method;
}

void measure_given(const Settings& settings) {
  const Published& given = published_of(settings);
  const char* const name = given.model.kind == models::DecoderKind::gpt ? "gpt" : "llama";
  Cluster cluster = Cluster::from_file(settings.cluster_file);
  cluster.num_hosts = given.data * given.tensor * given.pipeline / cluster.devices_per_host;
  models::DecoderOptions model = given.model;
  model.remat = true;
  const models::Decoder decoder(model);
  const TensorType tokens{i32, {given.batch, model.sequence}};
  const TrainingStep step =
      training_step({{"tokens", tokens}, {"labels", tokens}},
                    [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
                    optim::Adam{}, {.precision = bf16_mixed, .remat = Remat::all});
  for (int round = 0; round < settings.rounds; ++round) {
    Clock clock;
    const CompiledStep planned = plan_only(step, method_of(settings, given), cluster);
    bench::print_row(
        fmt::format("{} {} on {} devices, {} stages{}{}", name, given.name, cluster.num_devices(),
                    planned.plan.stages.size(), settings.interleaved ? ", interleaved" : "",
                    settings.stages > 0 ? ", meshes found" : ""),
        {clock.lap("processor_seconds"),
         {"nodes", static_cast<double>(planned.program->graph.nodes.size())},
         {"lowered_devices", static_cast<double>(planned.lowered->firsts.size())},
         {"step_seconds", planned.plan.cost.objective_seconds},
         {"planned_bytes", static_cast<double>(planned.memory_bytes)},
         {"peak_gigabytes", peak_gigabytes()}});
  }
}

/// Everything is left to the planner, as a user has it.
void measure_encoder_decoder(int rounds) {
  const TrainingStep step = testing::encoder_decoder::encoder_decoder_step();
  for (int round = 0; round < rounds; ++round)
    for (int devices = 2; devices <= 8; ++devices) {
      PlanningProgress last;
      const PipeshardParallel method{.num_micro_batches = kAutoMicroBatches,
                                     .layers = AutoLayers{},
                                     .stages = AutoStages{},
                                     .progress = [&](const PlanningProgress& now) { last = now; }};
      Clock clock;
      const CompiledStep planned = plan_only(step, method, Cluster::local(devices));
      bench::print_row(fmt::format("encoder-decoder on {} devices", devices),
                       {clock.lap("processor_seconds"),
                        {"stages", static_cast<double>(planned.plan.stages.size())},
                        {"micro_batches", static_cast<double>(planned.graph.num_micro_batches)},
                        {"step_seconds", last.best_seconds},
                        {"bound_seconds", last.lower_bound_seconds},
                        {"gap", planned.plan.cost.gap()},
                        {"searches", static_cast<double>(last.searches)},
                        {"ranges", static_cast<double>(last.ranges)}});
    }
}

void lower_all(const CompiledStep& planned) {
  const spmd::SpmdProgram partitioned = spmd::partition(planned.graph, planned.plan.sharding());
  verify(partitioned);
  const spmd::SpmdProgram program =
      spmd::bucket_collectives(spmd::fuse_elementwise(partitioned), 1 << 20);
  verify(program);
  lower::programs_of_all(program,
                         lower::lower_classes(program, true, lower::memory_rules("cpu", 1)));
}

void measure_lowering(int rounds) {
  Cluster cluster = Cluster::local(8);
  cluster.device.memory_bytes = std::int64_t{1} << 42;  // any of these steps fits
  for (const int layers : {4, 12, 24, 48, 96}) {
    const CompiledStep planned =
        plan_only(testing::gpt_step({.layers = layers}), Zero3Parallel{.mesh_shape = {8}}, cluster);
    const auto nodes = static_cast<double>(planned.program->graph.nodes.size());
    for (int round = 0; round < rounds; ++round) {
      Clock clock;
      lower_all(planned);
      const bench::Figure seconds = clock.lap("processor_seconds");
      bench::print_row(fmt::format("lowering of gpt {} layers", layers),
                       {{"nodes", nodes},
                        seconds,
                        {"microseconds_per_node_and_device", 1e6 * seconds.value / (8 * nodes)}});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  return bench::run(
      argc, argv, "Time of planning by phase.",
      {cli::text("CLUSTER_FILE", &settings.cluster_file, "8x8 devices"),
       cli::choice("--method", &settings.method, "shard, pipeline, given stages, or lowering",
                   {"shard", "pipeline", "given", "lowering"}),
       cli::choice("--model", &settings.model,
                   "mlp, gpt (shard: ZeRO-3); pipeline: also encoder-decoder; given: 1T, 175B, "
                   "405B; "
                   "--plan-only: dense (alpa-mlp's), residual-mlp, decoder (alpa-gpt's), experts "
                   "(alpa-moe's)",
                   {"mlp", "gpt", "encoder-decoder", "1T", "175B", "405B", "dense", "residual-mlp",
                    "decoder", "experts"}),
       cli::on("--plan-only", &settings.plan_only, "Only tracing and planning, of one mesh"),
       cli::text("--devices", &settings.devices,
                 "For --plan-only: 8, or hosts x devices of a host"),
       cli::whole("--layers", &settings.layers, "Layers", 1, 100000),
       cli::whole("--hosts", &settings.hosts, "Hosts of the cluster, for pipeline", 1, 1000),
       cli::whole("--micro-batches", &settings.micro_batches, "For pipeline", 1, 1000),
       cli::whole("--stages", &settings.stages, "For given; 0: as published", 0, 1000),
       cli::on("--interleaved", &settings.interleaved, "For given: 2 stages on each device"),
       cli::whole("--rounds", &settings.rounds, "Rounds", 1, 1000)},
      [&] {
        if (settings.plan_only) return measure_plan(settings);
        if (settings.method == "given") return measure_given(settings);
        if (settings.method == "lowering") return measure_lowering(settings.rounds);
        if (settings.model == "encoder-decoder") return measure_encoder_decoder(settings.rounds);
        (settings.method == "pipeline" ? measure_stages : measure_shards)(settings);
      });
}
