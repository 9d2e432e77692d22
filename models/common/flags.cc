// models/common/flags.cc — flags shared by all example programs
#include "models/common/flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace programs {

using namespace alpa;

namespace {

/// Devices where --devices is not given and there are not several cards.
constexpr int kDefaultDevices = 8, kMaxDevices = 1024;

constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

int default_devices(const Backend& backend) {
  const int cards = backend.name == "cuda" ? cuda_devices().count : 0;
  return cards > 1 ? cards : kDefaultDevices;
}

std::vector<cli::Flag> model_rows(Flags& f) {
  using namespace cli;
  return {
      choice("--optimizer", &f.optimizer, "how parameters follow gradients",
             {"adam", "adamw", "adamw_bf16", "adamw_8bit", "sgd", "lamb", "lion", "adafactor"}),
      positive_number("--learning-rate", &f.learning_rate, "step size of the optimizer"),
      whole("--warmup", &f.warmup,
            "steps in which the learning rate rises; then it falls along a cosine to a "
            "tenth; 0: it is constant",
            0),
      choice("--precision", &f.precision,
             "bf16_mixed, f16_mixed: f32 parameters, layers in half precision",
             {"as_written", "bf16_mixed", "f16_mixed"}),
      choice("--remat", &f.remat,
             "layers that are computed again in the backward pass instead of kept; auto: as few as "
             "the memory budget asks for",
             {"none", "all", "auto"}),
  };
}

std::vector<cli::Flag> data_rows(Flags& f) {
  using namespace cli;
  return {
      whole("--batch", &f.batch, "examples per step", 1),
      whole("--steps", &f.steps, "training steps", 0),
      whole("--seed", &f.seed, "of parameters, made data and shuffling", 0, kMaxInt64),
  };
}

/// The launch reads it from the environment, when the library is first asked.
cli::Flag join_timeout(Flags& f) {
  cli::Flag flag = cli::number("--join-timeout", &f.join_seconds,
                               "seconds in which all processes of a launch must join it", 0.5, 1e6);
  flag.take = [take = flag.take](const std::string& text) {
    return take(text) && ::setenv("ALPA_JOIN_SECONDS", text.c_str(), 1) == 0;
  };
  return flag;
}

std::vector<cli::Flag> device_rows(Flags& f) {
  using namespace cli;
  return {
      whole("--devices", &f.devices,
            "devices of this process: CPU threads, GPUs, or parts of one GPU; "
            "by default one per GPU of several, else 8",
            1, kMaxDevices),
      choice("--backend", &f.backend, "what runs the steps", {"auto", "cpu", "cuda"}),
      text("--cluster", &f.cluster,
           "cluster to plan for instead of --devices: a file, or a name such as dgx-a100"),
      whole("--memory-budget", &f.memory_budget, "bytes a device may use", 1, kMaxInt64),
      on("--reproducible", &f.reproducible,
         "CPU: the same bits for the same seed under every plan and number of devices"),
      on("--tf32", &f.tf32, "CUDA: let products and convolutions of f32 round to TF32"),
      positive_number("--stall-seconds", &f.stall_seconds,
                      "CPU: a step in which no instruction finishes for so long is an error"),
      join_timeout(f),
      whole("--check-replicas", &f.check_replicas,
            "steps after which devices that hold the same must hold the same bits; without the "
            "flag before each checkpoint; 0: never",
            0, kMaxInt64),
  };
}

bool is_auto_or_number(const std::string& word) {
  return word == "auto" || (word.size() < 6 && word.find_first_not_of("0123456789") == word.npos &&
                            !word.empty() && word[0] != '0');
}

std::vector<cli::Flag> plan_rows(Flags& f) {
  using namespace cli;
  return {
      choice("--method", &f.method, "how the step is spread over the devices; shard is automatic",
             {"serial", "data", "zero2", "zero3", "shard", "pipeline"}),
      text("--mesh", &f.mesh, "logical mesh; auto tries all", "auto or sizes like 8, 1x8 or 2x4",
           cli::is_mesh_shape),
      text("--micro-batches", &f.micro_batches,
           "parts of the batch over which gradients are accumulated; auto: method pipeline chooses",
           "auto or a number", is_auto_or_number),
      text("--stages", &f.stages, "of method pipeline; auto searches for them", "auto or a number",
           is_auto_or_number),
      text("--pipeline-layers", &f.pipeline_layers,
           "layers that the stages are made of; auto finds their number, too", "auto or a number",
           is_auto_or_number),
      choice("--schedule", &f.schedule,
             "order in which the stages run micro-batches; auto chooses if stages are searched for",
             {"auto", "gpipe", "1f1b", "1f1b_overlap", "interleaved_1f1b", "zero_bubble"}),
      positive_number("--solver-seconds", &f.solver_seconds,
                      "for planning; then the best plan so far is taken"),
      on("--plan-only", &f.plan_only, "plan and report, run nothing"),
      // Not an output: a cache that cannot be written is told of, and may still be read.
      text("--plan-cache", &f.plan_cache, "directory for proven plans, which are found once"),
      text("--load-plan", &f.load_plan, "take the plan from this file instead of solving for one"),
      output_file("--save-plan", &f.save_plan, "write the plan to this file"),
  };
}

std::vector<cli::Flag> output_rows(Flags& f) {
  using namespace cli;
  return {
      optional_choice("--explain", &f.explain,
                      "print why this plan was chosen: in ten lines, or in full",
                      {"summary", "full"}, "summary"),
      on("--timeline", &f.timeline, "print when each stage runs which micro-batch"),
      output_file("--trace", &f.trace,
                  "write a Chrome trace of the last step, predicted and measured, to this file; "
                  "with --plan-only what is predicted"),
      output_file("--report", &f.report, "write the plan as one HTML page to this file"),
      on("--progress", &f.progress,
         "print every better plan and bound while planning; terminals get a line every 2 s"),
      on("--compare", &f.compare,
         "run on one device too and report the largest difference of a parameter"),
      on("--quiet", &f.quiet, "print no line while training"),
      output_file("--log", &f.log, "write loss and seconds of every step to this file, as CSV"),
      output_folder("--tensorboard", &f.tensorboard,
                    "write the numbers of every step to this directory, for TensorBoard"),
      output_folder("--checkpoint", &f.checkpoint,
                    "save the run to this directory, at its end and when SIGTERM or SIGINT comes"),
      whole("--checkpoint-every", &f.checkpoint_every, "steps between checkpoints", 1, kMaxInt64),
      whole("--keep", &f.keep, "newest checkpoints that stay; 0: all", 0, 1'000'000),
      on("--resume", &f.resume, "continue where the newest checkpoint ended, if there is one"),
      output_file("--plot", &f.plot, "write the curve of the loss to this file, as SVG"),
      output_file("--json", &f.json, "write the report to this file"),
      output_folder("--dump", &f.dump, "write the result of every pass to this directory"),
  };
}

void print_progress(const PlanningProgress& p) {
  if (p.ranges > 0) {
    const std::string best =
        p.stages == 0 ? "no stages yet"
                      : fmt::format("{} in {} stages", seconds_text(p.best_seconds), p.stages);
    const std::string bound = p.lower_bound_seconds <= 0
                                  ? "no bound yet"
                                  : fmt::format("gap {:.3g} %, none take less than {}",
                                                100 * p.gap(), seconds_text(p.lower_bound_seconds));
    fmt::print(stderr,
               "planning    {:.1f} s: {} ({}), {} searches for {} ranges, at most {:.0f} s left\n",
               p.elapsed_seconds, best, bound, p.searches, p.ranges, p.seconds_left);
    return;
  }
  fmt::print(stderr,
             "planning    {:.1f} s: {} on mesh {}, gap {:.3g} % (no plan takes less than {})\n",
             p.elapsed_seconds, seconds_text(p.best_seconds), p.mesh, 100 * p.gap(),
             seconds_text(p.lower_bound_seconds));
}

/// Lines of progress: all if they are asked for, on a terminal one every two seconds.
ProgressCallback progress_of(const Flags& flags) {
  if (flags.progress) return print_progress;
  if (flags.quiet || isatty(STDERR_FILENO) == 0) return {};
  constexpr double kBetween = 2;
  return [next = kBetween](const PlanningProgress& now) mutable {
    if (now.elapsed_seconds < next) return;
    next = now.elapsed_seconds + kBetween;
    print_progress(now);
  };
}

}  // namespace

cli::Flag number_of_layers(std::int64_t* target, std::string meaning, std::int64_t least,
                           std::int64_t most) {
  cli::Flag flag = cli::whole("--layers", target, std::move(meaning), least, most);
  flag.allowed += fmt::format(", since a graph has at most {} nodes", kMaxGraphNodes);
  return flag;
}

bool is_gguf_name(const std::string& path) { return path.ends_with(".gguf"); }

std::string config_of(const std::string& load) {
  return excerpt(load) + (is_gguf_name(load) ? "" : "/config.json");
}

void refuse_decided(const Flags& flags, const std::vector<const char*>& decided) {
  for (const char* flag : decided)
    cli::require_effect(flags.given, flag, true,
                        fmt::format("beside --load {}, whose {} decides it", excerpt(flags.load),
                                    is_gguf_name(flags.load) ? "metadata" : "config.json"));
}

std::vector<cli::Flag> rows_of_blocks(Flags& f) {
  return {number_of_layers(&f.layers, "blocks; 0: those of the size", 0, models::kMostBlocks),
          cli::whole("--hidden", &f.hidden, "width of the blocks; 0: that of the size", 0),
          cli::whole("--heads", &f.heads, "heads of a block; 0: those of the size", 0)};
}

std::vector<cli::Flag> rows_of(Flags& flags, const ModelRows& own) {
  const auto with = [](std::vector<cli::Flag> rows, const std::vector<cli::Flag>& more) {
    rows.insert(rows.begin(), more.begin(), more.end());
    return rows;
  };
  return cli::joined({cli::in_group("Model", with(model_rows(flags), own.model)),
                      cli::in_group("Data", with(data_rows(flags), own.data)),
                      cli::in_group("Devices", device_rows(flags)),
                      cli::in_group("Plan", plan_rows(flags)),
                      cli::in_group("Output", with(output_rows(flags), own.output))});
}

Cluster make_cluster(const Flags& flags) {
  if (flags.cluster.empty()) {
    const Backend backend = choose_backend(flags.backend);
    return Cluster::local(flags.devices.value_or(default_devices(backend)), backend.name);
  }
  Cluster cluster = Cluster::find(flags.cluster);
  require(
      flags.backend == "auto" || flags.backend == cluster.backend,
      "--backend is '{}', but the devices of --cluster {} are of backend '{}'; leave one of the "
      "two out",
      flags.backend, flags.cluster, cluster.backend);
  return cluster;
}

/// The models mark no boundaries: layers are found.
void set_stages(const Flags& flags, PipeshardParallel& options) {
  const int stages = flags.stages == "auto" ? 0 : std::stoi(flags.stages);
  if (stages == 0)
    options.stages = AutoStages{};
  else
    options.stages = UniformStages{stages, flags.schedule == "interleaved_1f1b" ? 2 : 1};
  options.layers =
      AutoLayers{flags.pipeline_layers == "auto" ? stages : std::stoi(flags.pipeline_layers)};
  options.schedule = kAutoSchedule;
  if (flags.schedule != "auto") options.schedule = parse_schedule(flags.schedule);
  if (flags.micro_batches == "auto")
    options.num_micro_batches = kAutoMicroBatches;
  else
    options.num_micro_batches = std::stoi(flags.micro_batches);
}

Method make_method(const Flags& flags, const std::string& name) {
  Method method = parse_method(name);
  const auto set = [&](auto& options) {
    if (flags.mesh != "auto" && options.kind != MethodKind::serial)
      options.mesh_shape = parse_mesh_shape(flags.mesh);
    options.memory_budget_bytes = flags.memory_budget;
    options.dump_dir = flags.dump;
    options.plan_cache_dir = flags.plan_cache;
    options.solver_seconds = flags.solver_seconds;
    options.progress = progress_of(flags);
    options.executor.tf32 = flags.tf32;
    options.executor.reproducible = flags.reproducible;
    options.executor.record_times = !flags.trace.empty();
    options.executor.stall_seconds = flags.stall_seconds;
    if constexpr (options.kind == MethodKind::pipeline) {
      set_stages(flags, options);
    } else {
      require(flags.micro_batches != "auto",
              "--micro-batches is 'auto', but only --method pipeline chooses them; give a number");
      options.num_micro_batches = std::stoi(flags.micro_batches);
    }
  };
  std::visit(set, method);
  return method;
}

Optimizer make_optimizer(const Flags& flags) {
  LearningRate rate = flags.learning_rate;
  if (flags.warmup > 0)
    rate = warmup_cosine(flags.learning_rate, flags.warmup, std::max(flags.steps, flags.warmup + 1),
                         flags.learning_rate / 10);
  if (flags.optimizer == "adam") return optim::Adam{.learning_rate = rate};
  if (flags.optimizer == "adamw") return optim::AdamW{.learning_rate = rate};
  if (flags.optimizer == "adamw_bf16")
    return optim::AdamW{.learning_rate = rate, .moments = optim::Moments::bf16};
  if (flags.optimizer == "adamw_8bit")
    return optim::AdamW{.learning_rate = rate, .moments = optim::Moments::eight_bit};
  if (flags.optimizer == "lamb") return optim::Lamb{.learning_rate = rate};
  if (flags.optimizer == "lion") return optim::Lion{.learning_rate = rate};
  if (flags.optimizer == "adafactor") return optim::Adafactor{.learning_rate = rate};
  return optim::Sgd{.learning_rate = rate, .momentum = 0.9};
}

std::optional<DType> own_dtype(const std::string& dtype) {
  return dtype == "f32" ? std::nullopt : std::optional(parse_dtype(dtype));
}

Precision precision_of(const Flags& flags) {
  if (flags.precision == "bf16_mixed") return bf16_mixed;
  return flags.precision == "f16_mixed" ? f16_mixed : Precision::as_written;
}

Remat remat_of(const Flags& flags) {
  if (flags.remat == "auto") return Remat::automatic;
  return flags.remat == "all" ? Remat::all : Remat::none;
}

Backend choose_backend(const std::string& backend,
                       const std::function<CudaDevices()>& cuda_devices) {
  if (backend == "cpu") return {"cpu", "cpu (--backend cpu)"};
  invariant(backend == "cuda" || backend == "auto", "backend '{}' passed the table of flags",
            backend);
  const CudaDevices cuda = cuda_devices();
  require(cuda.count > 0 || backend == "auto", "--backend cuda: {}", cuda.text);
  const std::string chosen = cuda.count > 0 ? "cuda" : "cpu";
  return {chosen, fmt::format("{} ({})", chosen, cuda.text)};
}

std::string backend_line(const Flags& flags, const Cluster& cluster) {
  if (flags.cluster.empty()) return choose_backend(flags.backend).line;
  return cluster.backend == "cpu" ? fmt::format("cpu (--cluster {})", flags.cluster)
                                  : choose_backend(cluster.backend).line;
}

}  // namespace programs
