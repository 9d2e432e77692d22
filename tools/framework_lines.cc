// tools/framework_lines.cc — command lines and files of other frameworks
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/frameworks.h"

namespace plan {

using namespace alpa;
using Lines = std::vector<std::string>;

namespace {

/// Layers of the stages as `--pipeline-model-parallel-layout` has them: "Et*20|t*20L".
std::string layout_of(const FrameworkPlan& found) {
  std::string layout = "E";
  for (const StagePlan& stage : found.result.planned->plan.stages)
    layout += fmt::format("{}t*{}", stage.first_layer > 0 ? "|" : "",
                          stage.last_layer - stage.first_layer + 1);
  return layout + "L";
}

bool has_equal_stages(const FrameworkPlan& found) {
  const std::vector<StagePlan>& stages = found.result.planned->plan.stages;
  return std::ranges::all_of(stages, [&](const StagePlan& stage) {
    return stage.last_layer - stage.first_layer == stages[0].last_layer - stages[0].first_layer;
  });
}

std::string degree_arguments(const Subject& subject, const FrameworkPlan& found) {
  const Degrees& of = found.degrees;
  std::string text = fmt::format("--tensor-model-parallel-size {}", of.tensor);
  if (of.tensor > 1) text += " --sequence-parallel";
  if (of.context > 1)
    text += fmt::format(" --context-parallel-size {} --cp-comm-type all_gather", of.context);
  if (of.experts > 1) text += fmt::format(" --expert-model-parallel-size {}", of.experts);
  text += fmt::format(" --pipeline-model-parallel-size {}", of.pipeline);
  if (of.virtual_stages > 1 || !has_equal_stages(found))
    text += fmt::format(" --pipeline-model-parallel-layout \"{}\"", layout_of(found));
  return text + fmt::format(" --micro-batch-size {} --global-batch-size {}",
                            found.rows(subject.flags), subject.flags.batch);
}

std::string memory_arguments(const FrameworkPlan& found) {
  std::string text = "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather";
  if (found.degrees.recomputes)
    text += " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  return text;
}

/// What a framework's model of a decoder may have beside Llama's.
struct Reach {
  bool experts = false, head_width = false, head_norms = false, windows = false,
       rotary_share = false;
};

/// Throws Error if the decoder computes what the framework's model does not.
void check_variant(const Subject& subject, const Reach& reach) {
  const models::DecoderOptions& o = *subject.model.decoder;
  const models::DecoderVariant& v = o.variant;
  const std::pair<bool, const char*> beyond[] = {
      {v.experts.count > 0 && !reach.experts, "experts"},
      {v.latent.key_rank > 0, "latent attention"},
      {v.experts.shared > 0, "experts that all tokens share"},
      {v.experts.first > 0, "blocks without experts"},
      {v.score_cap > 0 || v.logit_cap > 0, "soft caps"},
      {v.norms_behind || v.scales_from_one, "the norms of Gemma"},
      {v.gelu_gate, "gates of GELU"},
      {v.embedding_scale != 1, "a scaled embedding"},
      {v.score_scale.has_value(), "another scale of attention"},
      {o.rotary_scaling && o.rotary_scaling->yarn, "the rotary scaling of YaRN"},
      {v.window > 0 && !reach.windows, "windows of attention"},
      {v.windowed_rotary_base > 0, "other positions in blocks with a window"},
      {v.rotary_share < 1 && !reach.rotary_share, "positions of a share of each head"},
      {v.head_norms && !reach.head_norms, "norms of queries and keys"},
      {o.head_width > 0 && !reach.head_width, "heads of another width than hidden / heads"}};
  for (const auto& [has, what] : beyond)
    require(!has, "--for {}: {} has {}", subject.flags.framework, subject.model.name, what);
}

/// Windows of some blocks: "0,1,1" has 1 for each block with one.
std::string window_arguments(const models::DecoderVariant& v) {
  std::string text = fmt::format(" --window-size {},0", v.window - 1);
  if (v.windowed.empty()) return text;
  std::vector<int> blocks(v.windowed.begin(), v.windowed.end());
  return text + fmt::format(" --window-attn-skip-freq \"[{}]\"", fmt::join(blocks, ","));
}

std::string size_arguments(const models::DecoderOptions& o, std::int64_t sequence) {
  std::string text =
      fmt::format("--num-layers {} --hidden-size {} --ffn-hidden-size {} --num-attention-heads {}",
                  o.layers, o.hidden, o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden, o.heads);
  if (o.key_heads > 0 && o.key_heads != o.heads)
    text += fmt::format(" --group-query-attention --num-query-groups {}", o.key_heads);
  if (o.head_width > 0) text += fmt::format(" --kv-channels {}", o.head_width);
  if (const models::DecoderExperts& experts = o.variant.experts; experts.count > 0)
    text += fmt::format(
        " --num-experts {} --moe-router-topk {}{} --moe-ffn-hidden-size {} --moe-grouped-gemm "
        "--moe-token-dispatcher-type alltoall",
        experts.count, experts.choices, experts.choices == 1 ? " --moe-router-pre-softmax" : "",
        o.feed_forward);
  return text + fmt::format(" --seq-length {} --max-position-embeddings {}", sequence,
                            std::max(sequence, o.sequence));
}

double norm_epsilon(const models::DecoderOptions& o) {
  if (o.norm_epsilon > 0) return o.norm_epsilon;
  return o.kind == models::DecoderKind::llama ? 1e-6 : 1e-5;
}

std::string kind_arguments(const models::DecoderOptions& o) {
  std::string text = "--position-embedding-type learned_absolute";
  if (o.kind == models::DecoderKind::llama) {
    text = fmt::format(
        "--swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base {:.0f} "
        "--disable-bias-linear",
        o.rotary_base);
    if (o.query_bias) text += " --add-qkv-bias";
    if (o.variant.head_norms) text += " --qk-layernorm";
    if (o.variant.window > 0) text += window_arguments(o.variant);
    if (o.variant.rotary_share < 1)
      text += fmt::format(" --rotary-percent {:g}", o.variant.rotary_share);
    if (const auto& scaling = o.rotary_scaling)
      text +=
          fmt::format(" {} {:g}",
                      scaling->original_positions > 0 ? "--use-rope-scaling --rope-scaling-factor"
                                                      : "--rotary-seq-len-interpolation-factor",
                      scaling->factor);
  }
  text += fmt::format(" --norm-epsilon {:g}", norm_epsilon(o));
  if (!o.tied_head) text += " --untie-embeddings-and-output-weights";
  return text + fmt::format(" --hidden-dropout {} --attention-dropout {}", o.dropout, o.dropout);
}

std::string number_arguments(const Subject& subject) {
  std::string text = fmt::format("--vocab-size {}", subject.model.decoder->vocabulary);
  if (subject.flags.precision == "bf16_mixed") text += " --bf16";
  if (subject.flags.precision == "f16_mixed") text += " --fp16";
  // Megatron-LM's adam decays weights apart from gradients, as adamw does.
  return text + " --optimizer " + (subject.flags.optimizer == "sgd" ? "sgd" : "adam");
}

/// Modules of a stage, as torchtitan names them: "tok_embeddings", "layers.0", …
Lines modules_of(const FrameworkPlan& found, std::size_t stage) {
  const std::vector<StagePlan>& stages = found.result.planned->plan.stages;
  Lines modules;
  if (stage == 0) modules.emplace_back("\"tok_embeddings\"");
  for (int layer = stages[stage].first_layer; layer <= stages[stage].last_layer; ++layer)
    modules.push_back(fmt::format("\"layers.{}\"", layer));
  if (stage + 1 == stages.size()) modules.insert(modules.end(), {"\"norm\"", "\"lm_head\""});
  return modules;
}

/// Processes of a host, and hosts.
std::string torchrun(const Cluster& cluster) {
  return fmt::format("torchrun --nproc_per_node {} --nnodes {}", cluster.devices_per_host,
                     cluster.num_hosts);
}

/// DeepSpeed's preset that finds experts of these names; empty: there is none.
std::string preset_of(models::DecoderNames names) {
  if (names == models::DecoderNames::mixtral) return "mixtral";
  return names == models::DecoderNames::qwen3_moe ? "qwen3_moe" : "";
}

}  // namespace

void check_megatron(const Subject& subject) {
  require(subject.model.decoder.has_value(),
          "--for megatron: {} is no decoder that Megatron-LM's pretrain_gpt.py trains; take gpt, "
          "llama or a folder of Hugging Face's",
          subject.model.name);
  const std::string& optimizer = subject.flags.optimizer;
  require(optimizer == "adam" || optimizer == "adamw" || optimizer == "sgd",
          "--for megatron: --optimizer is {}, but Megatron-LM has adam and sgd", optimizer);
  const models::DecoderOptions& o = *subject.model.decoder;
  check_variant(subject, {.experts = true,
                          .head_width = true,
                          .head_norms = true,
                          .windows = true,
                          .rotary_share = true});
  require(!o.projection_bias, "--for megatron: attention of {} has a bias at its projection alone",
          subject.model.name);
}

namespace {

/// Throws Error if the decoder is no Llama, or computes more than the framework's model reaches.
void check_llama(const Subject& subject, Reach (*reach)(const models::DecoderOptions&)) {
  const auto& decoder = subject.model.decoder;
  require(decoder && decoder->kind == models::DecoderKind::llama,
          "--for {}: {} is no Llama, whose model the framework has; take llama or a folder of "
          "Hugging Face's",
          subject.flags.framework, subject.model.name);
  check_variant(subject, reach(*decoder));
  require(!decoder->query_bias && !decoder->projection_bias,
          "--for {}: attention of {} has biases, which the framework's Llama lacks",
          subject.flags.framework, subject.model.name);
  require(subject.flags.precision != "f16_mixed",
          "--for {}: --precision is f16_mixed, but the framework trains in bf16 or f32",
          subject.flags.framework);
}

}  // namespace

void check_torchtitan(const Subject& subject) {
  // Its Qwen3 has norms of heads, and experts.
  check_llama(subject, [](const models::DecoderOptions& o) {
    const bool qwen = o.variant.head_norms;
    return Reach{.experts = qwen, .head_width = qwen, .head_norms = qwen};
  });
}

void check_maxtext(const Subject& subject) {
  check_llama(subject, [](const models::DecoderOptions&) { return Reach{.head_width = true}; });
}

void check_deepspeed(const Subject& subject) {
  const auto& decoder = subject.model.decoder;
  require(
      !decoder || decoder->variant.experts.count == 0 || !preset_of(decoder->variant.names).empty(),
      "--for deepspeed: {} has experts that DeepSpeed does not find by a preset; take Mixtral "
      "or Qwen3",
      subject.model.name);
}

Lines megatron_lines(const Subject& subject, const FrameworkPlan& found) {
  Lines lines = {torchrun(subject.cluster) + " pretrain_gpt.py",
                 degree_arguments(subject, found),
                 memory_arguments(found),
                 size_arguments(*subject.model.decoder, subject.model.sequence),
                 kind_arguments(*subject.model.decoder),
                 number_arguments(subject)};
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) lines[i] += " \\";
  return lines;
}

Lines torchtitan_lines(const Subject& subject, const FrameworkPlan& found) {
  const Degrees& of = found.degrees;
  const std::int64_t local = subject.flags.batch / of.data();
  const bool staged = of.pipeline > 1;
  Lines lines = {
      fmt::format("# {}", torchrun(subject.cluster)), "training=TrainingConfig(",
      // Without stages, micro-batches accumulate gradients.
      fmt::format("    local_batch_size={}, global_batch_size={}, seq_len={},",
                  staged ? local : found.rows(subject.flags), subject.flags.batch,
                  subject.model.sequence),
      fmt::format("    mixed_precision_param=\"{}\"),",
                  subject.flags.precision == "bf16_mixed" ? "bfloat16" : "float32"),
      "parallelism=ParallelismConfig(",
      fmt::format("    data_parallel_replicate_degree={}, data_parallel_shard_degree={},",
                  of.replicas, of.shards),
      fmt::format("    tensor_parallel_degree={}, pipeline_parallel_degree={},", of.tensor,
                  of.pipeline),
      fmt::format("    context_parallel_degree={}, expert_parallel_degree={},", of.context,
                  of.experts)};
  if (staged) {
    lines.push_back(
        fmt::format("    pipeline_parallel_schedule=\"{}\", pipeline_parallel_microbatch_size={},",
                    of.virtual_stages > 1 ? "Interleaved1F1B" : "1F1B", found.rows(subject.flags)));
    lines.emplace_back("    module_fqns_per_model_part=[");
    for (std::size_t stage = 0; stage < found.result.planned->plan.stages.size(); ++stage)
      lines.push_back(fmt::format("        [{}],", fmt::join(modules_of(found, stage), ", ")));
    lines.emplace_back("    ],");
  }
  lines.emplace_back("),");
  lines.push_back(
      fmt::format("activation_checkpoint={},", of.recomputes ? "FullAC.Config()" : "None"));
  return lines;
}

Lines deepspeed_lines(const Subject& subject, const FrameworkPlan& found) {
  nlohmann::ordered_json config = {
      {"train_batch_size", subject.flags.batch},
      {"train_micro_batch_size_per_gpu", found.rows(subject.flags)},
      {"gradient_accumulation_steps", found.degrees.micro_batches},
      {"bf16", {{"enabled", subject.flags.precision == "bf16_mixed"}}},
      {"fp16", {{"enabled", subject.flags.precision == "f16_mixed"}}},
      {"zero_optimization",
       {{"stage", zero_stage(found.degrees.shard_use)}, {"overlap_comm", true}}}};
  if (const int experts = found.degrees.experts; experts > 1)
    config["expert_parallel"] = {{"enabled", true},
                                 {"autoep_size", experts},
                                 {"preset_model", preset_of(subject.model.decoder->variant.names)}};
  Lines lines;
  const std::string text = config.dump(2);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  lines.push_back(found.degrees.recomputes
                      ? "# and every layer in deepspeed.checkpointing.checkpoint"
                      : "# and no layer in deepspeed.checkpointing.checkpoint");
  return lines;
}

Lines maxtext_lines(const Subject& subject, const FrameworkPlan& found) {
  const models::DecoderOptions& o = *subject.model.decoder;
  const int hosts = subject.cluster.num_hosts, host = subject.cluster.devices_per_host;
  // Of the devices that split state, those of one host are joined by its own links.
  const Degrees& of = found.degrees;
  const int inner = std::min(of.shards, host / of.tensor);
  const int outer_replicas = std::min(of.replicas, hosts);
  const double rows =
      static_cast<double>(subject.flags.batch) / of.micro_batches / subject.cluster.num_devices();
  return {
      fmt::format("ici_data_parallelism: {}", of.replicas / outer_replicas),
      fmt::format("ici_fsdp_parallelism: {}", inner),
      fmt::format("ici_tensor_parallelism: {}", of.tensor),
      fmt::format("dcn_data_parallelism: {}", outer_replicas),
      fmt::format("dcn_fsdp_parallelism: {}", of.shards / inner),
      fmt::format("per_device_batch_size: {:g}", rows),
      fmt::format("gradient_accumulation_steps: {}", of.micro_batches),
      fmt::format("remat_policy: '{}'", of.recomputes ? "full" : "minimal"),
      fmt::format("max_target_length: {}", subject.model.sequence),
      fmt::format("base_num_decoder_layers: {}", o.layers),
      fmt::format("base_emb_dim: {}", o.hidden),
      fmt::format("base_mlp_dim: {}", o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden),
      fmt::format("base_num_query_heads: {}", o.heads),
      fmt::format("base_num_kv_heads: {}", o.key_heads > 0 ? o.key_heads : o.heads),
      fmt::format("head_dim: {}", models::head_width_of(o)),
      fmt::format("vocab_size: {}", o.vocabulary),
      "decoder_block: 'llama2'",
      fmt::format("logits_via_embedding: {}", o.tied_head),
      fmt::format("rope_max_timescale: {:.0f}", o.rotary_base),
      fmt::format("normalization_layer_epsilon: {:g}", norm_epsilon(o)),
      fmt::format("dtype: '{}'", subject.flags.precision == "bf16_mixed" ? "bfloat16" : "float32")};
}

}  // namespace plan
