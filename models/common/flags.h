#pragma once
/// Flags shared by all example programs, and their translation into options of the library.
#include <alpa/alpa.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alpa/models/pretrained.h"
#include "alpa/models/pretrained_encoder.h"
#include "tools/common/flag_table.h"

namespace programs {

/// Values of the flags of all models, each of which has some (`Model::rows`).
struct Flags {
  // Running a step, and its reports.
  std::optional<int> devices = {};
  std::string backend = "auto";
  std::string mesh = "auto", method = "shard";
  std::string micro_batches = "1";
  std::string stages = "2", pipeline_layers = "auto", schedule = "auto";  ///< of method pipeline
  std::int64_t steps = 10, seed = 0, batch = 8;
  std::string optimizer = "adam", precision = "as_written", remat = "none";
  double learning_rate = 1e-3;
  std::int64_t warmup = 0;  ///< steps of rising rate, then a cosine down to a tenth; 0: constant
  std::string cluster = {};
  std::optional<std::int64_t> memory_budget = {};
  bool compare = false, plan_only = false, progress = false, timeline = false, tf32 = false,
       quiet = false, reproducible = false;
  double stall_seconds = 0;  ///< 0: devices may take any time
  double join_seconds = 60;  ///< for processes of a launch
  double solver_seconds = 60;
  std::string explain = {};  ///< "", "summary" or "full"
  std::string save_plan = {}, load_plan = {}, plan_cache = {}, dump = {}, json = {}, trace = {},
              report = {}, log = {}, tensorboard = {}, plot = {};
  std::string checkpoint = {};  ///< folder; "": none are saved
  std::int64_t checkpoint_every = 100, keep = 3;
  std::optional<std::int64_t> check_replicas = {};  ///< steps; none: at each checkpoint; 0: never
  bool resume = false;
  std::set<std::string> given = {};  ///< names of the flags on the command line

  // The model and its data.
  std::string model = "tiny";  ///< its size, one of `Model::sizes`
  std::string dtype = "f32", data = "made";
  std::int64_t image = 32;  ///< rows and columns of made images
  std::int64_t sequence = 128, vocabulary = 256;
  std::string vocabulary_name = "--vocabulary";  ///< who says it, in messages
  std::string tokenizer = "bytes";
  std::string buckets = {};                        ///< shorter rows of examples, between commas
  double test_share = 0.05;                        ///< of a text, at its end
  std::int64_t layers = 0, hidden = 0, heads = 0;  ///< 0: those of the size
  double dropout = 0;
  double hidden_share = 0.15;    ///< BERT: of the tokens
  std::int64_t mask_token = -1;  ///< BERT: in place of hidden ones; -1: the last one
  std::int64_t experts = 0, choices = 2, group = 2048;
  double capacity_factor = 1, balance_weight = 0.01;
  std::int64_t dim = 512, hidden_factor = 4, epochs = 0;  ///< of multi-layer perceptrons
  bool demo = false;

  // Functions of JAX.
  std::string parameters = {};        ///< of a loss: how many, or a pattern of names
  std::string random = "as_written";  ///< or "ours"

  // Decoders, and texts that they continue.
  std::string kind = "gpt", head = "auto";
  std::int64_t key_heads = 0, feed_forward = 0, positions = 0;
  double norm_epsilon = 0, rotary_base = 0;
  std::string load = {}, save = {}, logits = {};
  std::int64_t generate = 0, top_k = 40;
  double temperature = 0.8, top_p = 1;
  std::string prompt = "The ", prompts = {}, stop = {};
  std::optional<alpa::models::Pretrained> pretrained = {};  ///< what the folder of --load says
  std::int64_t lora = 0;                                    ///< rank of adapters; 0: none
  double lora_alpha = 0;
  std::string quantize = "none";
  std::string lora_targets = "*.attention.*", adapter = {}, save_adapter = {}, save_folder = {};
  std::string save_type = "f16";  ///< of the GGUF file of --save

  // Encoders' folders.
  std::optional<alpa::models::PretrainedEncoder> encoder = {};  ///< that of --load
  std::string examples = {};                                    ///< file of --logits' inputs
};

/// Flags of one model, by their group in the help.
struct ModelRows {
  std::vector<cli::Flag> model = {}, data = {}, output = {};
};

/// --layers, from `least` to `most`, as many as a graph may hold. A graph of larger layers is
/// refused while it grows.
cli::Flag number_of_layers(std::int64_t* target, std::string meaning, std::int64_t least,
                           std::int64_t most);

/// --layers, --hidden and --heads of models that are made of blocks.
std::vector<cli::Flag> rows_of_blocks(Flags& flags);

/// Whether --load names a GGUF file.
bool is_gguf_name(const std::string& path);
/// The file that says what the model of --load is.
std::string config_of(const std::string& load);

/// Throws Error if one of the flags was given, which the folder of --load decides.
void refuse_decided(const Flags& flags, const std::vector<const char*>& decided);

/// Gives a flag's `target` the value that goes with others, unless it was given itself.
template <class T>
void follow(const Flags& flags, const char* flag, T& target, const T& value) {
  if (!flags.given.contains(flag)) target = value;
}

/// The rows of all models and of the model's `own`, in the groups Model, Data, Devices, Plan and
/// Output.
std::vector<cli::Flag> rows_of(Flags& flags, const ModelRows& own = {});

/// Fills the flags from the command line, and checks those that belong together before any work
/// begins: throws Error if one has no effect beside the others, or if what is to be written can't
/// be. Returns true if only help was asked for, and prints it.
[[nodiscard]] bool read_flags(int argc, const char* const* argv, const std::string& purpose,
                              const std::vector<cli::Flag>& rows, Flags& flags);

/// Throws Error if a flag was given that has no effect because of another one.
void check_combinations(const Flags& flags);

/// The cluster that --cluster, or else --devices and --backend name. Without --devices:
/// a device per card where there are several, else eight. Throws Error naming flag,
/// value and what is allowed.
alpa::Cluster make_cluster(const Flags& flags);
/// The method called `method` with the options of the flags.
alpa::Method make_method(const Flags& flags, const std::string& method);
alpa::Optimizer make_optimizer(const Flags& flags);
/// The value of --precision.
alpa::Precision precision_of(const Flags& flags);
/// A value of --dtype. Absent for f32: it is the type of steps, which --precision may change.
std::optional<alpa::DType> own_dtype(const std::string& dtype);
/// The value of --remat, and whether the model marks layers for it.
alpa::Remat remat_of(const Flags& flags);
inline bool marks_remat(const Flags& flags) { return flags.remat != "none"; }

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
std::string backend_line(const Flags& flags, const alpa::Cluster& cluster);

}  // namespace programs
