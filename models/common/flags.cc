#include "models/common/flags.h"

#include <alpa/base/program.h>

#include <CLI/CLI.hpp>

namespace models {

using namespace alpa;

namespace {

/// Throws Error unless a flag's number is at least `least`.
void require_at_least(const char* flag, std::int64_t value, std::int64_t least) {
  require(value >= least, "{} is {}; it must be at least {}", flag, value, least);
}

void add(CLI::App& app, const Flag& flag) {
  if (auto* const* on = std::get_if<bool*>(&flag.target)) {
    app.add_flag(flag.name, **on, flag.meaning);
    return;
  }
  const auto add_option = [&](auto* target) {
    CLI::Option* option = app.add_option(flag.name, *target, flag.meaning);
    if constexpr (!std::is_same_v<decltype(target), std::optional<std::int64_t>*>)
      option->capture_default_str();
  };
  std::visit(add_option, flag.target);
}

/// "2 x NVIDIA H200, CUDA 13.0, driver for 13.1".
std::string cuda_text(const CudaSupport& cuda) {
  CudaDevice card{};
  CudaVersions versions{};
  CudaMessage why{};
  require(cuda.functions->device(0, &card, &why) == 0 && cuda.functions->versions(&versions, &why) == 0,
          "--backend: {}", why.text);
  return fmt::format("{} x {}, CUDA {}, driver for {}", cuda.devices, card.name, versions.runtime,
                     versions.driver);
}

}  // namespace

std::vector<Flag> rows_of(CommonFlags& f) {
  return {
      {"--devices", &f.devices, "devices of this process: CPU threads, GPUs, or parts of one GPU"},
      {"--backend", &f.backend, "what runs the steps: cpu, cuda or auto"},
      {"--mesh", &f.mesh, "logical mesh, e.g. 1x8 or 2x4; auto tries all"},
      {"--method", &f.method, "serial, data, zero2, zero3 or shard (automatic)"},
      {"--batch", &f.batch, "examples per step"},
      {"--micro-batches", &f.micro_batches, "parts of the batch over which gradients are accumulated"},
      {"--steps", &f.steps, "training steps"},
      {"--optimizer", &f.optimizer, "adam or sgd"},
      {"--learning-rate", &f.learning_rate, "step size of the optimizer"},
      {"--seed", &f.seed, "of parameters, made data and shuffling"},
      {"--cluster", &f.cluster, "cluster file to plan for instead of --devices"},
      {"--memory-budget", &f.memory_budget, "bytes a device may use"},
      {"--compare", &f.compare, "run on one device too and report the largest difference of a parameter"},
      {"--plan-only", &f.plan_only, "plan and report, run nothing"},
      {"--tf32", &f.tf32, "CUDA: let products of f32 round their operands to TF32"},
      {"--explain", &f.explain, "print why this plan was chosen"},
      {"--save-plan", &f.save_plan, "write the plan to this file"},
      {"--load-plan", &f.load_plan, "take the plan from this file instead of solving for one"},
      {"--dump", &f.dump, "write the result of every pass to this directory"},
      {"--json", &f.json, "write the report to this file"},
  };
}

void parse_flags(int argc, char** argv, const std::string& purpose, const std::vector<Flag>& flags) {
  CLI::App app(purpose);
  for (const Flag& flag : flags) add(app, flag);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    fmt::print("{}", app.help());
    std::exit(checked_status("help", 0));
  } catch (const CLI::ParseError& error) {
    fail("{}; --help lists the flags", error.what());
  }
}

Cluster make_cluster(const CommonFlags& flags) {
  if (!flags.cluster.empty()) return Cluster::from_file(flags.cluster);
  require_at_least("--devices", flags.devices, 1);
  require(flags.devices <= 1024, "--devices is {}; at most 1024 (describe larger machines with --cluster)",
          flags.devices);
  return Cluster::local(static_cast<int>(flags.devices), choose_backend(flags.backend).name);
}

Method make_method(const CommonFlags& flags, const std::string& name) {
  require_at_least("--micro-batches", flags.micro_batches, 1);
  if (flags.memory_budget) require_at_least("--memory-budget", *flags.memory_budget, 1);
  Method method = parse_method(name);
  const auto set = [&](auto& options) {
    options.num_micro_batches = static_cast<int>(flags.micro_batches);
    if (flags.mesh != "auto" && options.kind != MethodKind::serial)
      options.mesh_shape = parse_mesh_shape(flags.mesh);
    options.memory_budget_bytes = flags.memory_budget;
    options.dump_dir = flags.dump;
    options.executor.tf32 = flags.tf32;
  };
  std::visit(set, method);
  return method;
}

Optimizer make_optimizer(const CommonFlags& flags) {
  require(flags.learning_rate > 0, "--learning-rate is {}; it must be above 0", flags.learning_rate);
  if (flags.optimizer == "adam") return optim::Adam{.learning_rate = flags.learning_rate};
  if (flags.optimizer == "sgd") return optim::Sgd{.learning_rate = flags.learning_rate, .momentum = 0.9};
  fail("--optimizer is '{}'; it must be adam or sgd", flags.optimizer);
}

Backend choose_backend(const std::string& backend,
                       const std::function<const CudaSupport&()>& cuda_support) {
  if (backend == "cpu") return {"cpu", "cpu (--backend cpu)"};
  require(backend == "cuda" || backend == "auto", "--backend is '{}'; it must be auto, cpu or cuda",
          backend);
  const CudaSupport& cuda = cuda_support();
  if (!cuda.usable()) {
    require(backend == "auto", "--backend cuda: {}", cuda.reason);
    return {"cpu", fmt::format("cpu ({})", cuda.reason)};
  }
  return {"cuda", fmt::format("cuda ({}; {})", cuda_text(cuda), cuda.path)};
}

}  // namespace models
