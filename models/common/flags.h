#pragma once
/// The flags all example programs share, and what they mean for the library. CLI11 stays in flags.cc.
#include <alpa/alpa.h>
#include <alpa/device/cuda_library.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace models {

/// One flag of a command line: "--devices", where its value goes, and its line of help (with the default).
struct Flag {
  std::string name;
  std::variant<bool*, std::int64_t*, std::optional<std::int64_t>*, double*, std::string*> target;
  std::string meaning;
};

/// Where and how a step runs, and what is written about it.
struct CommonFlags {
  std::int64_t devices = 8;
  std::string backend = "auto";
  std::string mesh = "auto", method = "shard";
  std::int64_t micro_batches = 1, steps = 10, seed = 0, batch = 512;
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  std::string cluster;
  std::optional<std::int64_t> memory_budget;
  bool compare = false, plan_only = false, explain = false, tf32 = false;
  std::string save_plan, load_plan, dump, json;
};

/// The rows of `flags` for `parse_flags`.
std::vector<Flag> rows_of(CommonFlags& flags);

/// Fills the targets from the command line. `--help` prints and exits. Throws Error on a mistake.
void parse_flags(int argc, char** argv, const std::string& purpose, const std::vector<Flag>& flags);

/// The flags as the library wants them. Throw Error naming flag, value and what is allowed.
alpa::Cluster make_cluster(const CommonFlags& flags);
alpa::Method make_method(const CommonFlags& flags, const std::string& method);
alpa::Optimizer make_optimizer(const CommonFlags& flags);

/// What runs the steps, and why in one line: "cpu (--backend cpu)".
struct Backend {
  std::string name, line;
};

/// `backend` as the user gave it: auto is CUDA where there is a device, else the CPU. Throws Error if it is
/// none of auto, cpu and cuda, or is cuda, with what is missing. `cuda_support` is not asked for cpu.
Backend choose_backend(const std::string& backend,
                       const std::function<const alpa::CudaSupport&()>& cuda_support = alpa::cuda_support);

}  // namespace models
