#pragma once
/// A training run that a framework's command or file describes.
#include <string>
#include <string_view>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "alpa/models/gpt.h"
#include "alpa/plan/sharding_plan.h"
#include "tools/settings.h"

namespace plan {

/// What a run asks for.
struct GivenRun {
  std::string_view framework;                 ///< of --for
  alpa::models::DecoderOptions decoder = {};  ///< its vocabulary is padded as the framework does
  std::int64_t sequence = 0;                  ///< tokens of an example
  std::int64_t batch = 0;                     ///< global; 0: as the next two say
  std::int64_t rows = 0;                      ///< of a micro-batch, where the batch is split
  std::int64_t micro_batches = 0;             ///< 0: as many as the batch has
  int replicas = 1, shards = -1;              ///< -1: all devices that are left
  alpa::AxisUse shard_use = alpa::AxisUse::zero2;  ///< what of the state is split over shards
  int context = 1, tensor = 1, pipeline = 1, virtual_stages = 1;
  std::vector<int> layers = {};  ///< of the stages, if a layout says so
  bool sequence_parallel = true;
  /// Bytes of gradients and their sums beside 4 of each of a device's parameters.
  double gradients_held = 1;
  bool eight_bits = false;     ///< products and what they keep; they are priced as bf16
  std::string remat = "none";  ///< "all": every layer; "auto": single operators
  std::string precision = "as_written", optimizer = "adam";
  std::int64_t devices = 0;  ///< that it is written for; 0: it does not say
  std::vector<std::string> mistakes = {}, warnings = {};
  std::vector<std::string> unpriced = {};  ///< what changes costs in ways that are not known here
};

/// A command or file, and what it may lack.
struct RunSource {
  std::string text, name;  ///< of a file: its path
  std::string model;       ///< a folder of Hugging Face's, its config.json, or "llama 8B"
  std::string recipe;      ///< function of a Python file
  std::int64_t sequence = 0, vocabulary = 0;
  const alpa::Cluster& cluster;
};

/// Reads a command or script of Megatron-LM, MaxText or DeepSpeed, YAML of NeMo, Megatron-LM or
/// MaxText, TOML or Python of torchtitan, or JSON of DeepSpeed. Settings that change neither costs
/// nor bytes are passed over. Throws Error that names the source and the setting, for values that
/// are missing or wrong.
GivenRun read_run(const RunSource& source);

/// The model of `source`. Throws Error if it has none, or it is unknown.
alpa::models::DecoderOptions decoder_of(const RunSource& source);
/// Llama of a generation, "llama2" or "llama3", and a size such as "70B". Throws Error if it is
/// unknown.
alpa::models::DecoderOptions llama_of(const std::string& generation, const std::string& size,
                                      const std::string& origin);

/// The readers of each framework. `words`: flags of the launcher.
GivenRun megatron_run(const Settings& given, std::int64_t vocabulary);
GivenRun deepspeed_run(const RunSource& source, const Settings& json, const Settings& words);
GivenRun torchtitan_run(const RunSource& source, Settings given);
GivenRun maxtext_run(const RunSource& source, const Settings& given);
/// Settings of NeMo and of Megatron-LM's YAML as flags of Megatron-LM.
Settings megatron_flags(const Settings& yaml);

}  // namespace plan
