#pragma once
/// Flags shared by all example programs, and their translation into options of the library.
#include <alpa/alpa.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/common/flag_table.h"

namespace programs {

/// Options for running a step, and for its reports.
struct CommonFlags {
  std::optional<int> devices;
  std::string backend = "auto";
  std::string mesh = "auto", method = "shard";
  std::string micro_batches = "1";
  std::string stages = "2", pipeline_layers = "auto", schedule = "auto";  ///< of method pipeline
  std::int64_t steps = 10, seed = 0, batch = 512;
  std::string optimizer = "adam", precision = "as_written", remat = "none";
  double learning_rate = 1e-3;
  std::int64_t warmup = 0;  ///< steps of rising rate, then a cosine down to a tenth; 0: constant
  std::string cluster;
  std::optional<std::int64_t> memory_budget;
  bool compare = false, plan_only = false, progress = false, timeline = false, tf32 = false,
       quiet = false, reproducible = false;
  double stall_seconds = 0;  ///< 0: devices may take any time
  double join_seconds = 60;  ///< for processes of a launch
  double solver_seconds = 60;
  std::string explain;  ///< "", "summary" or "full"
  std::string save_plan, load_plan, plan_cache, dump, json, trace, report, log, plot;
  std::string checkpoint;  ///< folder; "": none are saved
  std::int64_t checkpoint_every = 100, keep = 3;
  std::optional<std::int64_t> check_replicas;  ///< steps; none: at each checkpoint; 0: never
  bool resume = false;
  std::set<std::string> given;  ///< names of the flags on the command line
};

/// Flags of one program, by their group in the help.
struct ModelRows {
  std::vector<cli::Flag> model, data, output;
};

/// --layers, from `least` to as many as a graph may hold if each has `nodes` when it is trained. A
/// graph of larger layers is refused while it grows.
cli::Flag number_of_layers(std::int64_t* target, std::string meaning, std::int64_t least,
                           std::int64_t nodes);
/// Least nodes of a dense layer and of a transformer's block with their gradients and updates.
inline constexpr std::int64_t kDenseNodes = 16, kBlockNodes = 64;

/// The rows of `flags` and of the program's `own`, in the groups Model, Data,
/// Devices, Plan and Output.
std::vector<cli::Flag> rows_of(CommonFlags& flags, const ModelRows& own = {});

/// Fills the flags from the command line, and checks those that belong together before any work
/// begins: throws Error if one has no effect beside the others, or if what is to be written can't
/// be. Returns true if only help was asked for, and prints it.
[[nodiscard]] bool read_flags(int argc, const char* const* argv, const std::string& purpose,
                              const std::vector<cli::Flag>& rows, CommonFlags& flags);

/// Throws Error if a flag was given that has no effect because of another one.
void check_combinations(const CommonFlags& flags);

/// The cluster that --cluster, or else --devices and --backend name. Without --devices:
/// a device per card where there are several, else eight. Throws Error naming flag,
/// value and what is allowed.
alpa::Cluster make_cluster(const CommonFlags& flags);
/// The method called `method` with the options of the flags.
alpa::Method make_method(const CommonFlags& flags, const std::string& method);
alpa::Optimizer make_optimizer(const CommonFlags& flags);
/// The value of --precision.
alpa::Precision precision_of(const CommonFlags& flags);
/// A value of --dtype. Absent for f32: it is the type of steps, which --precision may change.
std::optional<alpa::DType> own_dtype(const std::string& dtype);
/// The value of --remat, and whether the model marks layers for it.
alpa::Remat remat_of(const CommonFlags& flags);
inline bool marks_remat(const CommonFlags& flags) { return flags.remat != "none"; }

/// The backend of the steps, with the reason for its choice: "cpu (--backend cpu)".
struct Backend {
  std::string name, line;
};

/// `backend`, one of auto, cpu and cuda: auto is CUDA where there is a device, else the
/// CPU. Throws Error if it is cuda and there is no device, with what is missing.
/// `cuda_devices` is not asked for cpu.
Backend choose_backend(const std::string& backend,
                       const std::function<alpa::CudaDevices()>& cuda_devices = alpa::cuda_devices);

/// The line of `choose_backend` for the devices of `make_cluster(flags)`, which may
/// come from a cluster file.
std::string backend_line(const CommonFlags& flags, const alpa::Cluster& cluster);

}  // namespace programs
