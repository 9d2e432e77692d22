// tools/check.cc — alpa check FILE --cluster FILE|NAME: whether a command of Megatron-LM fits
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "models/common/interrupt.h"
#include "src/base/file.h"
#include "src/base/infinity.h"
#include "src/search/stages/plan_stage.h"
#include "tools/commands.h"
#include "tools/frameworks.h"
#include "tools/megatron_command.h"

using namespace alpa;
using namespace plan;

namespace {

constexpr FileKind kCommandFile{"command of Megatron-LM", 1 << 20};

/// Plans that take a larger part of the command's seconds are no better.
constexpr double kBetter = 0.995;

/// Exit status of a command that cannot run, or does not fit.
constexpr int kRefused = 1;

struct CheckFlags {
  std::string file, cluster;
  std::optional<int> hosts;
  std::int64_t vocabulary = 0;
  double seconds = 20;
};

/// A command on a cluster.
struct Checked {
  const MegatronCommand& command;
  const Cluster& cluster;
  int data = 1;            ///< data-parallel degree; 0: the devices are no multiple of the others
  std::int64_t batch = 0;  ///< rows of a step
  int micro_batches = 1;
  std::vector<std::string> mistakes = {}, warnings = {};
};

/// Why the command cannot run.
void add_mistakes(Checked& of) {
  const MegatronCommand& c = of.command;
  const auto refuse_unless = [&](bool good, std::string mistake) {
    if (!good) of.mistakes.push_back(std::move(mistake));
  };
  const int devices = of.cluster.num_devices();
  const std::int64_t degrees = std::int64_t{c.tensor} * c.pipeline;
  refuse_unless(of.data > 0,
                fmt::format("{} devices are no multiple of tensor {} x pipeline {} = {}", devices,
                            c.tensor, c.pipeline, degrees));
  const std::int64_t keys = c.decoder.key_heads > 0 ? c.decoder.key_heads : c.decoder.heads;
  refuse_unless(c.decoder.heads % c.tensor == 0,
                fmt::format("tensor {} does not divide the {} heads", c.tensor, c.decoder.heads));
  refuse_unless(keys % c.tensor == 0,
                fmt::format("tensor {} does not divide the {} query groups", c.tensor, keys));
  refuse_unless(c.decoder.feed_forward % c.tensor == 0,
                fmt::format("tensor {} does not divide the {} hidden features of an MLP", c.tensor,
                            c.decoder.feed_forward));
  const std::int64_t parts = std::int64_t{c.pipeline} * c.virtual_stages;
  refuse_unless(!c.layers.empty() || c.decoder.layers % parts == 0,
                fmt::format("{} layers are no multiple of pipeline {} x {} virtual stages; "
                            "--pipeline-model-parallel-layout gives stages of different lengths",
                            c.decoder.layers, c.pipeline, c.virtual_stages));
  if (of.data > 0)
    refuse_unless(of.batch % (c.rows * of.data) == 0,
                  fmt::format("global batch {} is no multiple of micro-batch {} x data {}",
                              of.batch, c.rows, of.data));
  refuse_unless(c.virtual_stages == 1 || of.micro_batches % c.pipeline == 0,
                fmt::format("{} micro-batches are no multiple of pipeline {}, which virtual stages "
                            "need",
                            of.micro_batches, c.pipeline));
}

void add_warnings(Checked& of) {
  const MegatronCommand& c = of.command;
  const auto warn_if = [&](bool bad, std::string warning) {
    if (bad) of.warnings.push_back(std::move(warning));
  };
  warn_if(
      c.tensor > of.cluster.devices_per_host,
      fmt::format("tensor {} spans hosts of {} devices", c.tensor, of.cluster.devices_per_host));
  warn_if(c.tensor > 1 && !c.sequence_parallel,
          "without --sequence-parallel norms and residuals are whole on every tensor-parallel "
          "device: it takes more memory than is said here");
  warn_if(c.tensor == 1 && c.sequence_parallel, "--sequence-parallel has no effect with tensor 1");
  warn_if(of.data > 1 && !c.distributed_optimizer,
          fmt::format("without --use-distributed-optimizer the optimizer's state is whole on {} "
                      "data-parallel devices",
                      of.data));
  const double bubble = (c.pipeline - 1.0) / (of.micro_batches * c.virtual_stages);
  warn_if(bubble > 0.15, fmt::format("the bubble is {:.0f} % of the work: {} micro-batches in {} "
                                     "stages",
                                     100 * bubble, of.micro_batches, c.pipeline));
  warn_if(c.precision == "as_written", "neither --bf16 nor --fp16 is given: products are f32");
}

Checked checked(const MegatronCommand& command, const Cluster& cluster) {
  Checked of{command, cluster};
  const std::int64_t degrees = std::int64_t{command.tensor} * command.pipeline;
  if (cluster.num_devices() % degrees == 0)
    of.data = static_cast<int>(cluster.num_devices() / degrees);
  else
    of.data = 0;
  of.batch = command.batch > 0 ? command.batch : command.rows * std::max(1, of.data);
  of.micro_batches =
      static_cast<int>(std::max<std::int64_t>(1, of.batch / (command.rows * std::max(1, of.data))));
  add_mistakes(of);
  if (of.mistakes.empty()) add_warnings(of);
  return of;
}

PlanFlags plan_flags(const Checked& of, const CheckFlags& flags) {
  PlanFlags own;
  own.name = flags.file, own.cluster = flags.cluster, own.hosts = flags.hosts;
  own.batch = of.batch, own.sequence = of.command.sequence;
  own.precision = of.command.precision, own.optimizer = of.command.optimizer;
  own.solver_seconds = flags.seconds, own.framework = "megatron";
  own.given = {"--sequence"};
  return own;
}

/// The command's own degrees and stages.
Method method_of(const Checked& of) {
  const MegatronCommand& c = of.command;
  PipeshardParallel method{.num_micro_batches = of.micro_batches, .layers = ManualLayers{}};
  const int stages = c.pipeline * c.virtual_stages;
  if (c.virtual_stages > 1) {
    method.stages = UniformStages{stages, c.virtual_stages};
    method.schedule = ScheduleKind::interleaved_one_f_one_b;
  } else {
    ManualStages manual;
    int next = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const int count =
          c.layers.empty() ? static_cast<int>(c.decoder.layers) / stages : c.layers[stage];
      manual.layers.emplace_back(count);
      std::iota(manual.layers.back().begin(), manual.layers.back().end(), next);
      next += count;
    }
    method.stages = std::move(manual);
  }
  const inter_op::GuessedMeshes meshes = meshes_of(
      of.cluster, 1, of.data, c.tensor, c.distributed_optimizer ? AxisUse::zero2 : AxisUse::data);
  method.mesh_shape = meshes.shape, method.axis_uses = meshes.axis_uses;
  return method;
}

std::string parameters_text(const models::DecoderOptions& o) {
  return fmt::format("{} of {} layers, {} wide, {} heads",
                     o.kind == models::DecoderKind::llama ? "Llama" : "GPT", o.layers, o.hidden,
                     o.heads);
}

/// Why a command does not fit: by what its fastest plan holds always, or as the search said.
std::string does_not_fit_text(const CompiledStep& fastest, const std::string& failure,
                              double device) {
  double held = 0;
  for (const StagePlan& stage : fastest.plan.stages)
    held = std::max(held, static_cast<double>(stage.memory.state + stage.memory.accumulators));
  if (held <= device) return "does not fit, as far as is known: " + failure;
  return fmt::format(
      "does not fit: parameters, gradients and optimizer state alone take {} of {} a "
      "device",
      size_text(held), size_text(device));
}

void print(const char* label, const std::string& words) { fmt::print("{:<12}{}\n", label, words); }

/// The command's own plan, and the best of the grid beside it. Returns the exit status.
int price(const Checked& of, const CheckFlags& flags) {
  const PlanFlags own = plan_flags(of, flags);
  PlanFlags with_remat = own;
  with_remat.remat = of.command.recomputes ? "all" : "none";
  const PlannedModel model = model_of_decoder(flags.file, of.command.decoder, flags.file, own);
  PlannedModel as_given = model;
  as_given.step = model.step_with(with_remat.remat);
  const Subject subject{own, model, of.cluster};
  const Subject given_subject{with_remat, as_given, of.cluster};
  const programs::PlanningInterrupt interrupt(true);
  const Stoppable stoppable = [&](Method method) { return interrupt.ending(std::move(method)); };
  const MethodResult given = planned_with(
      "given", given_subject, stoppable(with_common(method_of(of), own, flags.seconds)));
  if (given.planned) {
    print("verdict", "fits");
    print("memory", memory_of_device_text(given_subject, *given.planned));
    print("seconds", seconds_text(given.planned->plan.cost.objective_seconds) + " a step");
  } else {
    Method free = with_common(method_of(of), own, flags.seconds);
    std::visit([](auto& o) { o.memory_budget_bytes = kNoByteLimit; }, free);
    const CompiledStep fastest = plan_only(as_given.step, stoppable(free), of.cluster);
    print("verdict", does_not_fit_text(fastest, given.failure, device_bytes(own, of.cluster)));
    print("memory", memory_of_device_text(given_subject, fastest));
  }
  const Framework& megatron = find_framework("megatron");
  const FrameworkPlan best = best_of_grid(megatron, subject, stoppable);
  const auto seconds = [](const MethodResult& of_result) {
    return of_result.planned ? of_result.planned->plan.cost.objective_seconds : kInfinity;
  };
  if (seconds(best.result) < kBetter * seconds(given)) {
    fmt::print("\nThe best that is known:\n{}",
               framework_text(megatron, subject, best,
                              given.planned ? *given.planned : *best.result.planned));
  } else if (!given.planned) {
    print("best", best.result.failure);
  } else {
    print("best",
          fmt::format("no other degrees are known that take less: {}, none takes less than {}",
                      best.result.tried, seconds_text(best.bound_seconds)));
  }
  return given.planned ? 0 : kRefused;
}

int run_check(const CheckFlags& flags) {
  require(!flags.cluster.empty(), "--cluster is missing; give a cluster file, or one of {}",
          fmt::join(Cluster::names(), ", "));
  const Cluster cluster = Cluster::find(flags.cluster, flags.hosts.value_or(1));
  const MegatronCommand command =
      read_megatron(read_file(flags.file, kCommandFile), flags.file, flags.vocabulary);
  const Checked of = checked(command, cluster);
  print("model", parameters_text(command.decoder));
  print("degrees", degrees_text(1, of.data, command.tensor, command.pipeline, of.micro_batches,
                                command.rows, command.recomputes));
  for (const std::string& mistake : of.mistakes) print("mistake", mistake);
  for (const std::string& warning : of.warnings) print("warning", warning);
  if (of.mistakes.empty()) return price(of, flags);
  print("verdict", "cannot run");
  return kRefused;
}

}  // namespace

int check_command(int argc, char** argv) {
  CheckFlags flags;
  if (cli::parse(argc, argv,
                 "Says whether a command of Megatron-LM fits a cluster, and how far it is from the "
                 "best.",
                 {cli::text("FILE", &flags.file, "a text with the command, or a script with one"),
                  cli::text("--cluster", &flags.cluster,
                            fmt::format("a cluster file, or one of {}",
                                        fmt::join(Cluster::names(), ", "))),
                  cli::whole("--hosts", &flags.hosts, "times as many hosts", 1, 65536),
                  cli::whole("--vocabulary", &flags.vocabulary,
                             "tokens, of a command without --vocab-size", 0),
                  cli::positive_number("--time-limit", &flags.seconds,
                                       "seconds for its plan, and for the best one")}))
    return 0;
  return run_check(flags);
}
