// tools/check.cc — alpa check RUN --cluster FILE|NAME: whether a run of another framework fits
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "models/common/interrupt.h"
#include "models/common/training.h"
#include "src/base/file.h"
#include "src/base/infinity.h"
#include "src/report/plan_text.h"
#include "src/search/stages/plan_stage.h"
#include "tools/commands.h"
#include "tools/frameworks.h"
#include "tools/given_run.h"

using namespace alpa;
using namespace plan;

namespace {

constexpr FileKind kCommandFile{"command or file of a training run", 1 << 20};

constexpr std::int64_t kMostDevices = std::int64_t{1} << 40;

/// Plans that take a larger part of the run's seconds are no better.
constexpr double kBetter = 0.995;

/// Times the time limit that a run's own plan may take: its price must not depend on what else the
/// machine does.
constexpr double kOwnTimes = 10;

/// Bytes of a token's hidden feature that a layer keeps whole on tensor-parallel devices without
/// sequence parallelism: its input, or all norms and residuals (arXiv 2205.05198, eq. 2).
constexpr double kWholeInput = 2, kWholeLayer = 10;
/// With sequence parallelism: gathered inputs of two products, which alpa keeps and Megatron-LM
/// gathers again.
constexpr double kGatheredInputs = 4;

/// Exit status of a run that cannot be, or does not fit.
constexpr int kRefused = 1;

struct CheckFlags {
  std::string file, cluster, model, recipe;
  std::optional<int> hosts;
  std::int64_t vocabulary = 0, sequence = 0;
  double seconds = 20, measured_tokens_per_second = 0;
};

/// A run on a cluster.
struct Checked {
  GivenRun run;  ///< its batch, rows and micro-batches are known
  const Cluster& cluster;
  int data = 1;  ///< data-parallel degree; 0: the devices are no multiple of the others
  std::vector<std::string> mistakes = {}, warnings = {};

  int shards() const { return data / run.replicas; }
};

/// Why the degrees exclude each other.
void add_mistakes(Checked& of) {
  const GivenRun& r = of.run;
  const auto refuse_unless = [&](bool good, std::string mistake) {
    if (!good) of.mistakes.push_back(std::move(mistake));
  };
  const models::DecoderOptions& o = r.decoder;
  const std::int64_t keys = o.key_heads > 0 ? o.key_heads : o.heads;
  const std::int64_t width = o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden;
  refuse_unless(o.heads % r.tensor == 0,
                fmt::format("tensor {} does not divide the {} heads", r.tensor, o.heads));
  refuse_unless(keys % r.tensor == 0,
                fmt::format("tensor {} does not divide the {} query groups", r.tensor, keys));
  refuse_unless(
      width % r.tensor == 0,
      fmt::format("tensor {} does not divide the {} hidden features of an MLP", r.tensor, width));
  const std::int64_t parts = std::int64_t{r.pipeline} * r.virtual_stages;
  refuse_unless(!r.layers.empty() || o.layers % parts == 0,
                fmt::format("{} layers are no multiple of pipeline {} x {} virtual stages{}",
                            o.layers, r.pipeline, r.virtual_stages,
                            r.framework == "megatron"
                                ? "; --pipeline-model-parallel-layout gives stages of different "
                                  "lengths"
                                : ""));
  refuse_unless(
      r.layers.empty() || std::accumulate(r.layers.begin(), r.layers.end(), 0) == o.layers,
      fmt::format("the parts of the model do not have its {} layers", o.layers));
  refuse_unless(r.sequence % r.context == 0,
                fmt::format("context {} does not divide {} tokens", r.context, r.sequence));
  if (of.data > 0)
    refuse_unless(r.batch == r.rows * of.data * r.micro_batches,
                  fmt::format("global batch {} is no multiple of micro-batch {} x data {}{}",
                              r.batch, r.rows, of.data,
                              r.batch % (r.rows * of.data) == 0
                                  ? fmt::format(" in {} micro-batches", r.micro_batches)
                                  : ""));
  refuse_unless(r.virtual_stages == 1 || r.micro_batches % r.pipeline == 0,
                fmt::format("{} micro-batches are no multiple of pipeline {}, which virtual stages "
                            "need",
                            r.micro_batches, r.pipeline));
}

/// True of ZeRO and FSDP, which so hold the sums of their shard alone.
bool reduces_in_every_micro_batch(const Checked& of) {
  return of.run.framework != "megatron" && of.run.shard_use != AxisUse::data && of.shards() > 1 &&
         of.run.micro_batches > 1;
}

void add_warnings(Checked& of) {
  const GivenRun& r = of.run;
  const auto warn_if = [&](bool bad, std::string warning) {
    if (bad) of.warnings.push_back(std::move(warning));
  };
  const bool megatron = r.framework == "megatron";
  warn_if(r.devices > 0 && r.devices != of.cluster.num_devices(),
          fmt::format("it is written for {} devices, the cluster has {}", r.devices,
                      of.cluster.num_devices()));
  warn_if(
      r.tensor > of.cluster.devices_per_host,
      fmt::format("tensor {} spans hosts of {} devices", r.tensor, of.cluster.devices_per_host));
  warn_if(megatron && r.tensor > 1 && !r.sequence_parallel,
          "without --sequence-parallel norms and residuals are whole on every tensor-parallel "
          "device");
  warn_if(megatron && r.tensor == 1 && r.sequence_parallel,
          "--sequence-parallel has no effect with tensor 1");
  warn_if(of.data > 1 && r.shard_use == AxisUse::data,
          fmt::format("without {} the optimizer's state is whole on {} data-parallel devices",
                      megatron ? "--use-distributed-optimizer" : "a stage of ZeRO", of.data));
  const double bubble =
      (r.pipeline - 1.0) / (static_cast<double>(r.micro_batches) * r.virtual_stages);
  warn_if(bubble > 0.15, fmt::format("the bubble is {:.0f} % of the work: {} micro-batches in {} "
                                     "stages",
                                     100 * bubble, r.micro_batches, r.pipeline));
  warn_if(r.precision == "as_written", "neither bf16 nor fp16 is given: products are f32");
  warn_if(r.eight_bits, "eight-bit products are priced as bf16: it takes less time and memory");
  warn_if(reduces_in_every_micro_batch(of),
          "gradients are reduced in every micro-batch, which is priced once a step");
  warn_if(r.remat == "auto",
          "single operators are computed again: it is priced by whole layers, as few as fit");
}

/// Fills in what the run leaves open on this cluster.
Checked checked(GivenRun given, const Cluster& cluster) {
  Checked of{std::move(given), cluster};
  GivenRun& r = of.run;
  of.mistakes = r.mistakes, of.warnings = r.warnings;
  const int devices = cluster.num_devices();
  const std::int64_t inner =
      std::min(std::int64_t{r.tensor} * r.pipeline * r.context, kMostDevices);
  const std::string context = r.context > 1 ? fmt::format("context {} x ", r.context) : "";
  std::int64_t others = inner;
  for (int* degree : {&r.replicas, &r.shards})
    if (*degree > 0) others = std::min(others * *degree, kMostDevices);
  const bool left = r.replicas < 0 || r.shards < 0;
  if (r.replicas < 0 && r.shards < 0) r.replicas = 1;
  int& open = r.shards < 0 ? r.shards : r.replicas;
  if (left) open = static_cast<int>(devices / others);
  of.data = (left ? devices % others == 0 : devices == others) ? r.replicas * r.shards : 0;
  if (of.data == 0)
    of.mistakes.push_back(
        left
            ? fmt::format("{} devices are no multiple of {}{}tensor {} x pipeline {} = {}", devices,
                          others == inner ? "" : "data x ", context, r.tensor, r.pipeline, others)
            : fmt::format("{} devices are not data {} x {}tensor {} x pipeline {} = {}", devices,
                          r.replicas * r.shards, context, r.tensor, r.pipeline, others));
  const std::int64_t data = std::max(1, of.data);
  if (r.rows == 0)
    r.rows = std::max<std::int64_t>(1, r.batch / data / std::max<std::int64_t>(1, r.micro_batches));
  if (r.batch == 0) r.batch = r.rows * data * std::max<std::int64_t>(1, r.micro_batches);
  if (r.micro_batches == 0) r.micro_batches = std::max<std::int64_t>(1, r.batch / (r.rows * data));
  add_mistakes(of);
  if (!of.mistakes.empty()) return of;
  add_warnings(of);
  if (reduces_in_every_micro_batch(of)) r.gradients_held /= of.shards();
  // Sums of two bytes become f32 for the update, each device those of its shard.
  if (r.framework == "megatron" && r.gradients_held < 1)
    r.gradients_held += r.shard_use == AxisUse::data ? 1.0 : 1.0 / of.shards();
  return of;
}

PlanFlags plan_flags(const Checked& of, const CheckFlags& flags) {
  PlanFlags own;
  own.name = flags.file, own.cluster = flags.cluster, own.hosts = flags.hosts;
  own.batch = of.run.batch, own.sequence = of.run.sequence;
  own.precision = of.run.precision, own.optimizer = of.run.optimizer;
  own.solver_seconds = flags.seconds, own.framework = of.run.framework;
  own.given = {"--sequence"};
  return own;
}

Degrees degrees_of(const Checked& of) {
  const GivenRun& r = of.run;
  return {.replicas = r.replicas,
          .shards = of.data > 0 ? of.shards() : 0,
          .context = r.context,
          .tensor = r.tensor,
          .pipeline = r.pipeline,
          .shard_use = r.shard_use,
          .micro_batches = static_cast<int>(r.micro_batches),
          .recomputes = r.remat == "all"};
}

/// The run's own degrees and stages.
Method method_of(const Checked& of) {
  const GivenRun& r = of.run;
  PipeshardParallel method{.num_micro_batches = static_cast<int>(r.micro_batches),
                           .layers = ManualLayers{}};
  const int stages = r.pipeline * r.virtual_stages;
  if (r.virtual_stages > 1) {
    method.stages = UniformStages{stages, r.virtual_stages};
    method.schedule = ScheduleKind::interleaved_one_f_one_b;
  } else {
    ManualStages manual;
    int next = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const int count =
          r.layers.empty() ? static_cast<int>(r.decoder.layers) / stages : r.layers[stage];
      manual.layers.emplace_back(count);
      std::iota(manual.layers.back().begin(), manual.layers.back().end(), next);
      next += count;
    }
    method.stages = std::move(manual);
  }
  const inter_op::GuessedMeshes meshes = meshes_of(of.cluster, degrees_of(of));
  method.mesh_shape = meshes.shape, method.axis_uses = meshes.axis_uses;
  return method;
}

std::string parameters_text(const models::DecoderOptions& o) {
  return fmt::format("{} of {} layers, {} wide, {} heads",
                     o.kind == models::DecoderKind::llama ? "Llama" : "GPT", o.layers, o.hidden,
                     o.heads);
}

/// Bytes of the fullest device that every plan of these degrees holds.
double always_held(const CompiledStep& planned) {
  double held = 0;
  for (const StagePlan& stage : planned.plan.stages)
    held = std::max(held, static_cast<double>(stage.memory.state + stage.memory.accumulators));
  return held;
}

/// Why a run does not fit: by what its fastest plan holds always, with `more` bytes of the run, or
/// as the search said.
std::string does_not_fit_text(const CompiledStep& fastest, const std::string& failure, double more,
                              double device) {
  const double held = always_held(fastest) + more;
  if (held <= device) return "does not fit, as far as is known: " + failure;
  return fmt::format(
      "does not fit: parameters, gradients and optimizer state alone{} take {} of {} a device",
      more > 0 ? ", with what the framework holds beside them," : "", size_text(held),
      size_text(device));
}

void print(const char* label, const std::string& words) { fmt::print("{:<12}{}\n", label, words); }

/// The fullest stage by kinds of bytes, and each of several stages whose bytes differ.
void print_memory(const Subject& subject, const CompiledStep& planned) {
  print("memory", memory_of_device_text(subject, planned));
  const std::vector<StagePlan>& stages = planned.plan.stages;
  const auto text_of = [](const StagePlan& stage) { return memory_text(stage.memory, size_text); };
  for (std::size_t first = 0; stages.size() > 1 && first < stages.size();) {
    const std::string text = text_of(stages[first]);
    std::size_t end = first + 1;
    while (end < stages.size() && text_of(stages[end]) == text) ++end;
    print(
        fmt::format("stage {}{}", first, end - first > 1 ? fmt::format("-{}", end - 1) : "")
            .c_str(),
        fmt::format("{}: {}", size_text(static_cast<double>(stages[first].memory.total())), text));
    first = end;
  }
}

/// What measured tokens per second are of the devices' peak and of the predicted ones.
void print_measured(const Subject& subject, const CompiledStep& planned, double measured) {
  const double tokens = subject.model.items,
               predicted = tokens / planned.plan.cost.objective_seconds;
  print("measured", fmt::format("{:.0f} tokens/s, {:.2f} times the predicted {:.0f}", measured,
                                measured / predicted, predicted));
  const auto& peaks = subject.cluster.device.peak_flops_per_second;
  const auto peak = peaks.find(programs::computed_in(planned.graph));
  if (peak == peaks.end()) return;
  const double share = measured / tokens * useful_flops(planned.graph) /
                       (peak->second * subject.cluster.num_devices());
  if (share > 1)
    print("warning",
          fmt::format("{:.0f} tokens/s need {:.2f} times the peak of {} devices: count devices, "
                      "padding and the tokens of a step again",
                      measured, share, subject.cluster.num_devices()));
  else
    print("measured", fmt::format("{:.1f} % of the devices' peak", 100 * share));
}

/// The best of the framework's grid beside the run's own plan, or beside nothing.
void print_best(const Subject& subject, const MethodResult& given, const Stoppable& stoppable) {
  const Framework& framework = find_framework(subject.flags.framework);
  const FrameworkPlan best = best_of_grid(framework, subject, stoppable);
  const auto seconds = [](const MethodResult& of_result) {
    return of_result.planned ? of_result.planned->plan.cost.objective_seconds : kInfinity;
  };
  if (seconds(best.result) < kBetter * seconds(given)) {
    if (given.planned)
      print("ratio", fmt::format("{:.2f} times the best that is known",
                                 seconds(given) / seconds(best.result)));
    fmt::print("\nThe best that is known:\n{}",
               framework_text(framework, subject, best,
                              given.planned ? *given.planned : *best.result.planned));
  } else if (!given.planned) {
    print("best", best.result.failure);
  } else {
    print("best",
          fmt::format("no other degrees are known that take less: {}, none takes less than {}",
                      best.result.tried, seconds_text(best.bound_seconds)));
  }
}

/// The run's own plan, and, if it does not fit, the fastest that has no limit.
struct OwnPlan {
  MethodResult given;
  std::optional<CompiledStep> unlimited = {};
  double more_bytes = 0;  ///< of a device, that the run holds and the plan does not
};

/// What a layer keeps whole, or does not, on tensor-parallel devices beside the plan: bytes of a
/// token's hidden feature.
double whole_bytes(const GivenRun& run) {
  const bool all = run.remat == "all";
  if (run.framework != "megatron") return 0;
  if (!run.sequence_parallel) return all ? kWholeInput : kWholeLayer;
  return all ? 0 : -kGatheredInputs;
}

/// Gradients of another size, and `each` byte that layers keep beside the plan.
double more_bytes(const GivenRun& run, const CompiledStep& planned, double each) {
  double sums = kInfinity;
  for (const StagePlan& stage : planned.plan.stages)
    sums = std::min(sums, static_cast<double>(stage.memory.accumulators));
  const auto layers = static_cast<double>(run.decoder.layers), stages = run.pipeline * 1.0;
  double kept = layers / stages * std::min(stages, static_cast<double>(run.micro_batches));
  if (run.virtual_stages > 1) kept *= 1 + (stages - 1) / (stages * run.virtual_stages);
  const double tokens = static_cast<double>(run.sequence * run.rows) / run.context;
  return (run.gradients_held - 1) * sums +
         kept * tokens * static_cast<double>(run.decoder.hidden) * each * (1 - 1.0 / run.tensor);
}

OwnPlan own_plan(const Checked& of, const Subject& subject, const Stoppable& stoppable) {
  PlanFlags flags = subject.flags;
  flags.solver_seconds *= kOwnTimes;
  const auto planned = [&](std::int64_t budget) {
    PlanFlags within = flags;
    within.memory_budget = budget;
    const Method method = with_common(method_of(of), within, within.solver_seconds);
    return planned_with("given", {within, subject.model, subject.cluster}, stoppable(method));
  };
  OwnPlan own{planned(kNoByteLimit)};
  require(own.given.planned.has_value(), "{}: {}", flags.name, own.given.failure);
  const double device = device_bytes(flags, of.cluster), each = whole_bytes(of.run);
  own.more_bytes = more_bytes(of.run, *own.given.planned, each);
  if (static_cast<double>(own.given.planned->memory_bytes) + own.more_bytes <= device) return own;
  own.unlimited = std::move(own.given.planned);
  // The next plan keeps no more than it must.
  own.more_bytes = more_bytes(of.run, *own.unlimited, std::max(0.0, each));
  own.given = {.method = "given", .failure = "found no plan that fits"};
  if (const double left = device - own.more_bytes; left >= always_held(*own.unlimited))
    own.given = planned(static_cast<std::int64_t>(left));
  return own;
}

void print_own(const Checked& of, const Subject& subject, const OwnPlan& own, double measured) {
  const bool fits = own.given.planned.has_value();
  const CompiledStep& planned = fits ? *own.given.planned : *own.unlimited;
  const double device = device_bytes(subject.flags, of.cluster);
  const std::string why =
      fits ? "" : does_not_fit_text(planned, own.given.failure, own.more_bytes, device);
  print("verdict", fits ? "fits" : of.run.eight_bits ? "unknown: in bf16 it " + why : why);
  print_memory(subject, planned);
  if (own.more_bytes != 0)
    print("held",
          fmt::format("{} of {} a device, {} {} than that: gradients and their sums take {:.3g} "
                      "times the accumulators{}",
                      size_text(static_cast<double>(planned.memory_bytes) + own.more_bytes),
                      size_text(device), size_text(std::abs(own.more_bytes)),
                      own.more_bytes > 0 ? "more" : "less", of.run.gradients_held,
                      of.run.tensor == 1 || whole_bytes(of.run) == 0 ? ""
                      : whole_bytes(of.run) > 0 ? ", norms and residuals are whole"
                                                : ", inputs of products are gathered again"));
  if (!fits) return;
  const StageSeconds& slow =
      std::ranges::max_element(planned.plan.stages, {}, [](const StagePlan& stage) {
        return stage.seconds.forward + stage.seconds.backward;
      })->seconds;
  print("seconds", fmt::format("{:.3g} s a step; slowest stage: forward {}, backward {} a "
                               "micro-batch, apply {}; bubble {:.1f} %",
                               planned.plan.cost.objective_seconds, seconds_text(slow.forward),
                               seconds_text(slow.backward), seconds_text(slow.apply),
                               100 * planned.plan.bubble));
  if (measured > 0) print_measured(subject, planned, measured);
}

/// The run's own plan, and the best of the grid beside it. Returns the exit status.
int price(const Checked& of, const CheckFlags& flags) {
  const PlanFlags own = plan_flags(of, flags);
  PlanFlags with_remat = own;
  with_remat.remat = of.run.remat;
  models::DecoderOptions decoder = of.run.decoder;
  decoder.sequence = std::max(decoder.sequence, of.run.sequence);
  // Of several stages the last one holds a copy of the table; alpa would send it.
  decoder.tied_head &= of.run.pipeline == 1;
  const PlannedModel model = model_of_decoder(flags.file, decoder, flags.file, own);
  PlannedModel as_given = model;
  as_given.step = model.step_with(with_remat.remat);
  const programs::PlanningInterrupt interrupt(true);
  const Stoppable stoppable = [&](Method method) { return interrupt.ending(std::move(method)); };
  const Subject subject{with_remat, as_given, of.cluster};
  const OwnPlan planned = own_plan(of, subject, stoppable);
  print_own(of, subject, planned, flags.measured_tokens_per_second);
  print_best({own, model, of.cluster}, planned.given, stoppable);
  return planned.given.planned || of.run.eight_bits ? 0 : kRefused;
}

/// The text of a file, or a command as it is.
std::string text_of_run(const std::string& given) {
  const bool command = given.find(' ') != std::string::npos && !std::filesystem::exists(given);
  return command ? given : read_file(given, kCommandFile);
}

int run_check(const CheckFlags& flags) {
  require(!flags.cluster.empty(), "--cluster is missing; give a cluster file, or one of {}",
          fmt::join(Cluster::names(), ", "));
  const Cluster cluster = Cluster::find(flags.cluster, flags.hosts.value_or(1));
  const RunSource source{text_of_run(flags.file), flags.file,       flags.model, flags.recipe,
                         flags.sequence,          flags.vocabulary, cluster};
  const Checked of = checked(read_run(source), cluster);
  const GivenRun& r = of.run;
  print("model", parameters_text(r.decoder));
  print("degrees", degrees_text(degrees_of(of), r.rows));
  for (const std::string& mistake : of.mistakes) print("mistake", mistake);
  for (const std::string& warning : of.warnings) print("warning", warning);
  if (!of.mistakes.empty()) {
    print("verdict", "cannot run");
  } else if (!r.unpriced.empty()) {
    print("verdict", fmt::format("unknown: {} is not priced", fmt::join(r.unpriced, ", ")));
  } else {
    return price(of, flags);
  }
  return kRefused;
}

}  // namespace

int check_command(int argc, char** argv) {
  CheckFlags flags;
  if (cli::parse(
          argc, argv,
          "Says whether a training run of another framework fits a cluster, and how far it is from "
          "the best.",
          {cli::text("RUN", &flags.file,
                     "a command, or a script with one, of Megatron-LM, DeepSpeed or MaxText; or a "
                     "file: .json of DeepSpeed, .toml or .py of torchtitan, .yml or .yaml of "
                     "MaxText, NeMo or Megatron-LM"),
           cli::text(
               "--cluster", &flags.cluster,
               fmt::format("a cluster file, or one of {}", fmt::join(Cluster::names(), ", "))),
           cli::whole("--hosts", &flags.hosts, "times as many hosts", 1, 65536),
           cli::text("--model", &flags.model,
                     "of a run that names none: a folder of Hugging Face's, its config.json, or a "
                     "size such as \"llama3 8B\""),
           cli::text("--recipe", &flags.recipe, "function of a Python file"),
           cli::whole("--sequence", &flags.sequence, "tokens of an example, of DeepSpeed", 0),
           cli::whole("--vocabulary", &flags.vocabulary, "tokens, of a run without --vocab-size",
                      0),
           cli::positive_number("--measured-tokens-per-second", &flags.measured_tokens_per_second,
                                "of the run, to compare"),
           cli::positive_number("--time-limit", &flags.seconds,
                                "seconds for the best plan; its own may take ten times as many")}))
    return 0;
  return run_check(flags);
}
