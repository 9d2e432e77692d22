// tools/torchtitan_run.cc — reads TOML and recipes of torchtitan
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "tools/given_run.h"

namespace plan {

using namespace alpa;

namespace {

/// Degrees, which releases have in different sections.
const std::vector<std::string> kParallelism = {"data_parallel_degree",
                                               "data_parallel_replicate_degree",
                                               "data_parallel_shard_degree",
                                               "tensor_parallel_degree",
                                               "pipeline_parallel_degree",
                                               "pipeline_parallel_schedule",
                                               "pipeline_parallel_microbatch_size",
                                               "pipeline_parallel_layers_per_stage",
                                               "context_parallel_degree",
                                               "expert_parallel_degree",
                                               "expert_tensor_parallel_degree",
                                               "fsdp_reshard_after_forward",
                                               "enable_async_tensor_parallel",
                                               "disable_loss_parallel",
                                               "enable_loss_parallel",
                                               "enable_sequence_parallel",
                                               "enable_compiled_autograd",
                                               "context_parallel_rotate_method",
                                               "context_parallel_load_balancer",
                                               "pipeline_parallel_schedule_csv",
                                               "pipeline_parallel_split_points",
                                               "pipeline_parallel_first_stage_less_layers",
                                               "pipeline_parallel_last_stage_less_layers",
                                               "module_fqns_per_model_part"};

/// Brings degrees of older sections into that of today.
void gather_degrees(Settings& given) {
  for (const std::string section : {"training", "experimental"})
    for (const std::string& key : kParallelism)
      if (given.has(section + "." + key)) {
        given.set("parallelism." + key, given.text(section + "." + key));
        given.erase(section + "." + key);
      }
  given.check_section("parallelism", kParallelism);
}

models::DecoderOptions torchtitan_model(const RunSource& source, const Settings& given) {
  if (!source.model.empty()) return decoder_of(source);
  const std::string flavor = given.text("model.flavor", given.text("model_spec"));
  return llama_of(given.text("model.name", "llama3"), flavor, given.origin());
}

/// Layers of each part of `module_fqns_per_model_part`, a list of lists of names.
std::vector<int> parts_of(const std::string& list) {
  std::vector<int> layers;
  for (std::size_t at = 1; at < list.size(); ++at) {
    if (list[at] == '[') layers.push_back(0);
    if (!layers.empty() && list.compare(at, 7, "layers.") == 0) ++layers.back();
  }
  return layers;
}

void read_schedule(const Settings& given, GivenRun& run) {
  run.layers = parts_of(given.text("parallelism.module_fqns_per_model_part"));
  const auto parts = static_cast<int>(run.layers.size());
  if (parts % run.pipeline != 0)
    run.mistakes.push_back(
        fmt::format("{} parts of the model are no multiple of pipeline {}", parts, run.pipeline));
  else if (parts > 0)
    run.virtual_stages = parts / run.pipeline;
  const std::string schedule = given.text("parallelism.pipeline_parallel_schedule", "1F1B");
  if (run.pipeline > 1 && schedule == "Interleaved1F1B" && run.layers.empty())
    run.virtual_stages = 2;
  else if (run.pipeline > 1 && schedule != "1F1B" && schedule != "Interleaved1F1B")
    run.warnings.push_back("schedule " + excerpt(schedule) + " is priced as 1F1B");
}

void read_local_batch(const Settings& given, GivenRun& run) {
  const bool old = given.has("training.batch_size");
  const std::int64_t local =
      given.whole(old ? "training.batch_size" : "training.local_batch_size", 8, kMostRows);
  run.rows = run.pipeline > 1
                 ? given.whole("parallelism.pipeline_parallel_microbatch_size", 1, kMostRows)
                 : local;
  if (given.has("training.global_batch_size") && given.text("training.global_batch_size") != "-1") {
    run.batch = given.whole("training.global_batch_size");
  } else {
    if (local % run.rows != 0)
      run.mistakes.push_back(
          fmt::format("local batch {} is no multiple of micro-batch {}", local, run.rows));
    run.micro_batches = std::max<std::int64_t>(1, local / run.rows);
  }
}

void read_recomputation(const Settings& given, GivenRun& run) {
  const std::vector<std::string> keys = given.keys();
  const bool is_none =
      std::ranges::count(keys, "activation_checkpoint") > 0 && !given.has("activation_checkpoint");
  const std::string mode =
      given.text("activation_checkpoint.mode", given.text("activation_checkpoint", "selective"));
  if (mode == "full" || mode.starts_with("FullAC"))
    run.remat = "all";
  else
    run.remat = is_none || mode == "none" ? "none" : "auto";
}

}  // namespace

GivenRun torchtitan_run(const RunSource& source, Settings given) {
  gather_degrees(given);
  const auto degree = [&](const std::string& key, int otherwise) {
    return given.degree("parallelism." + key, otherwise);
  };
  GivenRun run{.framework = "torchtitan",
               .decoder = torchtitan_model(source, given),
               .sequence = given.whole("training.seq_len", 2048),
               .replicas = degree("data_parallel_replicate_degree", 1),
               .shards = degree("data_parallel_shard_degree", degree("data_parallel_degree", -1)),
               .shard_use = AxisUse::zero3,
               .context = degree("context_parallel_degree", 1),
               .tensor = degree("tensor_parallel_degree", 1),
               .pipeline = degree("pipeline_parallel_degree", 1)};
  for (const char* key : {"tensor_parallel_degree", "pipeline_parallel_degree",
                          "data_parallel_replicate_degree", "context_parallel_degree"})
    if (degree(key, 1) < 1) given.refuse(std::string("parallelism.") + key, "must be above 0");
  if (const int experts = degree("expert_parallel_degree", 1); experts > 1)
    run.unpriced.push_back(fmt::format("expert_parallel_degree {}", experts));
  read_schedule(given, run);
  read_local_batch(given, run);
  read_recomputation(given, run);
  run.precision = given.text("training.mixed_precision_param", "bfloat16") == "bfloat16"
                      ? "bf16_mixed"
                      : "as_written";
  const std::string converters = given.text("model.converters", given.text("model_converters"));
  if (converters.find("loat8") != std::string::npos || given.on("float8.enable_float8_linear"))
    run.eight_bits = true;
  run.sequence_parallel = true;
  return run;
}

}  // namespace plan
