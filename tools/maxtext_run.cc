// tools/maxtext_run.cc — reads YAML and commands of MaxText
#include <algorithm>
#include <cmath>

#include "tools/common/flag_table.h"
#include "tools/given_run.h"

namespace plan {

using namespace alpa;

namespace {

/// Sizes of a model without a name, with base.yml's defaults.
models::DecoderOptions decoder_of_sizes(const Settings& given) {
  models::DecoderOptions o{.kind = models::DecoderKind::llama,
                           .layers = given.whole("base_num_decoder_layers", 16),
                           .hidden = given.whole("base_emb_dim", 2048),
                           .heads = given.whole("base_num_query_heads", 16),
                           .vocabulary = given.whole("vocab_size", 32000),
                           .feed_forward = given.whole("base_mlp_dim", 7168),
                           .head_bias = false,
                           .tied_head = given.on("logits_via_embedding")};
  o.key_heads = given.whole("base_num_kv_heads", 16);
  if (o.layers > models::kMostBlocks)
    given.refuse("base_num_decoder_layers", fmt::format("is above {}", models::kMostBlocks));
  if (given.text("global_parameter_scale", "1") != "1")
    given.refuse("global_parameter_scale", "scales all sizes; give those that result");
  o.head_width = given.whole("head_dim", 128);
  if (o.head_width * o.heads == o.hidden) o.head_width = 0;
  return o;
}

models::DecoderOptions maxtext_model(const RunSource& source, const Settings& given) {
  if (!source.model.empty()) return decoder_of(source);
  const std::string name = given.text("model_name", "default");
  if (name == "default") return decoder_of_sizes(given);
  const std::size_t dash = std::min(name.find('-'), name.size());
  return llama_of(name.substr(0, dash), name.substr(std::min(dash + 1, name.size())),
                  given.origin());
}

/// Their product, bounded.
int joined_degree(int a, int b) {
  return static_cast<int>(std::min(std::int64_t{a} * b, kMostDegree));
}

/// Degrees of a kind over hosts and inside them. -1, of one of them: what others leave.
struct AxisDegrees {
  int replicas = 1, shards = 1, context = 1, tensor = 1;
};

AxisDegrees axis_degrees(const Settings& given, const std::string& prefix, int devices,
                         GivenRun& run) {
  AxisDegrees degrees;
  int* left = nullptr;
  const auto read = [&](const std::string& kind, int otherwise, int& into) {
    const int degree = given.degree(prefix + kind + "_parallelism", otherwise);
    if (degree < 0)
      left = &into;
    else
      into = joined_degree(into, degree);
  };
  const bool outer = prefix == "dcn_";
  read("data", outer ? -1 : 1, degrees.replicas);
  read("fsdp", outer ? 1 : -1, degrees.shards);
  read("fsdp_transpose", 1, degrees.shards);
  for (const char* kind : {"tensor", "tensor_transpose", "tensor_sequence"})
    read(kind, 1, degrees.tensor);
  read("context", 1, degrees.context);
  for (const char* kind : {"sequence", "expert", "pipeline", "autoregressive"})
    if (const std::string key = prefix + kind + "_parallelism"; given.degree(key, 1) != 1)
      run.unpriced.push_back(key + " " + given.text(key));
  const int product = joined_degree(joined_degree(degrees.replicas, degrees.shards),
                                    joined_degree(degrees.context, degrees.tensor));
  if (left) *left = joined_degree(*left, std::max(1, devices / product));
  return degrees;
}

}  // namespace

GivenRun maxtext_run(const RunSource& source, const Settings& given) {
  GivenRun run{.framework = "maxtext",
               .decoder = maxtext_model(source, given),
               .sequence = given.whole("max_target_length", 2048),
               .micro_batches = given.whole("gradient_accumulation_steps", 1, kMostRows),
               .shard_use = AxisUse::zero3};
  const Cluster& cluster = source.cluster;
  const AxisDegrees outer = axis_degrees(given, "dcn_", cluster.num_hosts, run),
                    inner = axis_degrees(given, "ici_", cluster.devices_per_host, run);
  run.replicas = joined_degree(outer.replicas, inner.replicas);
  run.shards = joined_degree(outer.shards, inner.shards);
  run.context = joined_degree(outer.context, inner.context);
  run.tensor = joined_degree(outer.tensor, inner.tensor);
  const auto rows = cli::parse_number(given.text("per_device_batch_size", "12"));
  if (!rows || *rows <= 0 || *rows > 1e6)
    given.refuse("per_device_batch_size", "is no number above 0");
  const double micro_batch = *rows * cluster.num_devices();
  run.batch = std::llround(micro_batch) * run.micro_batches;
  if (std::abs(micro_batch - std::round(micro_batch)) > 1e-6 || run.batch < 1)
    run.mistakes.push_back(
        fmt::format("{:g} rows of a device are {:g} in all, no whole number", *rows, micro_batch));
  const std::string policy = given.text("remat_policy", "full");
  run.remat = policy == "full" ? "all" : policy == "minimal" ? "none" : "auto";
  if (policy.find("offload") != std::string::npos) run.unpriced.push_back("remat_policy " + policy);
  run.precision = given.text("dtype", "bfloat16") == "bfloat16" ? "bf16_mixed" : "as_written";
  run.eight_bits = !given.text("quantization").empty();
  return run;
}

}  // namespace plan
