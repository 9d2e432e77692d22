// tools/deepspeed_run.cc — reads JSON of DeepSpeed, and what its launcher is given
#include <algorithm>
#include <filesystem>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "tools/given_run.h"

namespace plan {

using namespace alpa;

namespace {

/// What changes costs in ways that are not priced.
constexpr const char* kOffload[] = {"zero_optimization.offload_optimizer.device",
                                    "zero_optimization.offload_param.device"};
constexpr const char* kPartialShards[] = {"zero_optimization.zero_hpz_partition_size",
                                          "zero_optimization.mics_shard_size"};
/// Flags of the tokens of an example.
constexpr const char* kSequence[] = {"--max_seq_length", "--max_seq_len", "--model_max_length",
                                     "--cutoff_len",     "--block_size",  "--max_length"};

/// A number of the JSON; "auto" or nothing: that of the launcher; 0: of neither.
std::int64_t number_or_flag(const Settings& json, const std::string& key, const Settings& words,
                            const std::string& flag) {
  if (json.has(key) && json.text(key) != "auto") return json.whole(key, {}, kMostRows);
  return words.has(flag) ? words.whole(flag, {}, kMostRows) : 0;
}

bool is_enabled(const Settings& json, const std::string& key, const Settings& words,
                const std::string& flag) {
  return json.text(key) == "auto" ? words.on(flag) : json.on(key);
}

void read_zero(const Settings& json, GivenRun& run) {
  const std::string stage = json.text("zero_optimization.stage", "0");
  if (stage != "0" && stage != "1" && stage != "2" && stage != "3")
    json.refuse("zero_optimization.stage", "is no stage from 0 to 3");
  // What it holds of the sums of gradients follows from its micro-batches (check.cc).
  run.shard_use = stage == "3" ? AxisUse::zero3 : stage == "0" ? AxisUse::data : AxisUse::zero1;
  for (const char* key : kOffload)
    if (json.text(key, "none") != "none")
      run.unpriced.push_back(std::string(key) + " " + json.text(key));
  for (const char* key : kPartialShards)
    if (json.degree(key, 1) > 1) run.unpriced.push_back(std::string(key) + " " + json.text(key));
}

void read_sequence(const RunSource& source, const Settings& words, GivenRun& run) {
  run.sequence = source.sequence;
  for (const char* flag : kSequence)
    if (run.sequence == 0 && words.has(flag)) run.sequence = words.whole(flag);
  require(run.sequence > 0, "{}: it says no tokens of an example; give --sequence",
          excerpt(source.name));
}

}  // namespace

GivenRun deepspeed_run(const RunSource& source, const Settings& json, const Settings& words) {
  RunSource with = source;
  const std::string model = words.text("--model_name_or_path");
  if (with.model.empty() && std::filesystem::exists(model)) with.model = model;
  GivenRun run{.framework = "deepspeed",
               .decoder = decoder_of(with),
               .batch = number_or_flag(json, "train_batch_size", words, ""),
               .rows = number_or_flag(json, "train_micro_batch_size_per_gpu", words,
                                      "--per_device_train_batch_size"),
               .micro_batches = number_or_flag(json, "gradient_accumulation_steps", words,
                                               "--gradient_accumulation_steps")};
  read_zero(json, run);
  read_sequence(source, words, run);
  run.tensor = json.degree("tensor_parallel.autotp_size", 1);
  if (run.batch == 0 || run.rows == 0)
    run.micro_batches = std::max<std::int64_t>(1, run.micro_batches);
  if (run.batch == 0 && run.rows == 0)
    json.refuse("train_batch_size", "is missing, and so is train_micro_batch_size_per_gpu");
  if (is_enabled(json, "bf16.enabled", words, "--bf16"))
    run.precision = "bf16_mixed";
  else if (is_enabled(json, "fp16.enabled", words, "--fp16"))
    run.precision = "f16_mixed";
  for (const char* flag : {"--gradient_checkpointing", "--use_activation_checkpointing"})
    if (words.on(flag)) run.remat = "all";
  std::string optimizer = json.text("optimizer.type", "AdamW");
  if (optimizer == "SGD")
    run.optimizer = "sgd";
  else if (optimizer != "Adam" && optimizer != "AdamW" && optimizer != "auto")
    run.warnings.push_back("optimizer " + excerpt(optimizer) + " is priced as Adam");
  if (json.degree("sequence_parallel_size", 1) > 1)
    run.warnings.emplace_back(
        "sequence_parallel_size has no effect by itself: without Ulysses attention in the model, "
        "every device keeps whole sequences");
  const auto per_host = number_or_flag(words, "--num_gpus", words, "--nproc_per_node"),
             hosts = number_or_flag(words, "--num_nodes", words, "--nnodes");
  if (per_host > 0) run.devices = per_host * std::max<std::int64_t>(1, hosts);
  return run;
}

}  // namespace plan
