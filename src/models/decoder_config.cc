// src/models/decoder_config.cc — config.json of transformers' decoders to options, a row per family
#include "src/models/decoder_config.h"

#include <cmath>
#include <limits>

#include "alpa/models/pretrained.h"

namespace alpa::models {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  ///< extents and tokens
constexpr std::int64_t kMostExperts = 4096;

DecoderOptions gpt2_options(const JsonObject& config) {
  // Both are the tanh form of GELU; "gelu" is the exact one.
  config.expect_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.expect("tie_word_embeddings", true);
  config.expect("scale_attn_weights", true);
  config.expect("scale_attn_by_inverse_layer_idx", false);
  config.expect("add_cross_attention", false);
  DecoderOptions o{.kind = DecoderKind::gpt,
                   .layers = config.whole("n_layer", 1, kMostBlocks),
                   .hidden = size(config, "n_embd"),
                   .heads = size(config, "n_head"),
                   .sequence = size(config, config.has("n_positions") ? "n_positions" : "n_ctx"),
                   .vocabulary = size(config, "vocab_size"),
                   .feed_forward = size_or(config, "n_inner", 0),
                   .head_bias = false};
  if (config.has("layer_norm_epsilon")) o.norm_epsilon = config.positive("layer_norm_epsilon");
  check_heads(config, "n_head", o.heads, o.hidden);
  return o;
}

// ---- rotary positions

/// The scaling. Throws Error, naming the key `high`, unless its high turns exceed its low ones.
RotaryScaling with_checked_turns(const JsonObject& rotary, const char* high,
                                 const RotaryScaling& scaling) {
  if (scaling.high_turns <= scaling.low_turns)
    rotary.refuse(high, fmt::format("a number above {}", scaling.low_turns));
  return scaling;
}

/// The scaling of Llama 3.1 and later.
RotaryScaling llama3_scaling(const JsonObject& rotary) {
  return with_checked_turns(rotary, "high_freq_factor",
                            {.factor = rotary.positive("factor"),
                             .original_positions = size(rotary, "original_max_position_embeddings"),
                             .low_turns = rotary.positive("low_freq_factor"),
                             .high_turns = rotary.positive("high_freq_factor")});
}

/// YaRN also scales cosines and sines, of queries and of keys: here the scores, by the square.
RotaryScaling yarn_scaling(const JsonObject& rotary, DecoderOptions& o) {
  rotary.expect("truncate", true);
  for (const char* key : {"mscale", "mscale_all_dim"})
    if (rotary.has(key)) rotary.refuse(key, "null");
  const auto or_else = [&](const char* key, double otherwise) {
    return rotary.has(key) ? rotary.positive(key) : otherwise;
  };
  const RotaryScaling scaling{
      .factor = rotary.positive("factor"),
      .original_positions = size_or(rotary, "original_max_position_embeddings", o.sequence),
      .low_turns = or_else("beta_slow", 1),
      .high_turns = or_else("beta_fast", 32),
      .yarn = true};
  const double usual = scaling.factor > 1 ? 0.1 * std::log(scaling.factor) + 1 : 1,
               factor = or_else("attention_factor", usual);
  o.variant.score_scale = factor * factor / std::sqrt(static_cast<double>(head_width_of(o)));
  return with_checked_turns(rotary, "beta_fast", scaling);
}

/// LongRoPE of Phi-3: a factor per pair. `config` has the positions of training in older files.
RotaryScaling longrope_scaling(const JsonObject& config, const JsonObject& rotary,
                               const DecoderOptions& o) {
  constexpr const char* kPositions = "original_max_position_embeddings";
  const JsonObject& place = config.has(kPositions) ? config : rotary;
  const double turned = o.variant.rotary_share * static_cast<double>(head_width_of(o));
  const auto pairs = static_cast<std::int64_t>(turned / 2);
  RotaryScaling scaling{
      .original_positions = place.has(kPositions) ? place.whole(kPositions, 2, kMost) : o.sequence,
      .factors = rotary.positives("short_factor", pairs),
      .long_factors = rotary.positives("long_factor", pairs)};
  const auto original = static_cast<double>(scaling.original_positions);
  const double factor =
      rotary.has("factor") ? rotary.positive("factor") : static_cast<double>(o.sequence) / original;
  if (rotary.has("attention_factor"))
    scaling.magnitude = rotary.positive("attention_factor");
  else if (factor > 1)
    scaling.magnitude = std::sqrt(1 + std::log(factor) / std::log(original));
  return scaling;
}

/// `type`: the key of the kind of scaling.
std::optional<RotaryScaling> read_scaling(const JsonObject& config, const JsonObject& rotary,
                                          const char* type, DecoderOptions& o) {
  const std::string kind = rotary.text(type);
  if (kind == "default") return {};
  if (kind == "linear") return RotaryScaling{.factor = rotary.positive("factor")};
  if (kind == "llama3") return llama3_scaling(rotary);
  if (kind == "yarn") return yarn_scaling(rotary, o);
  if (kind == "longrope" || kind == "su") return longrope_scaling(config, rotary, o);
  rotary.refuse(type, "\"default\", \"linear\", \"llama3\", \"yarn\" or \"longrope\"");
}

/// Throws Error unless an even number of a head's elements is turned.
void read_share(const JsonObject& config, DecoderOptions& o) {
  constexpr const char* kShare = "partial_rotary_factor";
  if (!config.has(kShare)) return;
  const double share = config.positive(kShare),
               turned = share * static_cast<double>(head_width_of(o));
  if (share > 1 || std::floor(turned) != turned || std::fmod(turned, 2) != 0)
    config.refuse(kShare, fmt::format("1, or a share of the {} elements of a head that is an even "
                                      "number",
                                      head_width_of(o)));
  o.variant.rotary_share = share;
}

/// Base, share and scaling of one object, which transformers 5 writes.
void read_rotary_object(const JsonObject& config, const JsonObject& rotary, DecoderOptions& o) {
  if (rotary.has("rope_theta")) o.rotary_base = rotary.positive("rope_theta");
  read_share(rotary, o);
  o.rotary_scaling = read_scaling(config, rotary, "rope_type", o);
}

void read_rotary(const JsonObject& config, DecoderOptions& o) {
  if (config.has("rope_parameters"))
    read_rotary_object(config, config.object("rope_parameters"), o);
  else {  // as before version 5
    if (config.has("rope_theta")) o.rotary_base = config.positive("rope_theta");
    read_share(config, o);
    if (config.has("rope_scaling")) {
      const JsonObject scaling = config.object("rope_scaling");
      const bool older = !scaling.has("rope_type") && scaling.has("type");
      o.rotary_scaling = read_scaling(config, scaling, older ? "type" : "rope_type", o);
    }
  }
  if (o.variant.rotary_share < 1 && o.rotary_scaling && o.rotary_scaling->yarn)
    config.refuse("partial_rotary_factor", "1 beside YaRN");
}

// ---- windows

/// The blocks with a window: `layer_types`, else every block but each `full`th.
std::vector<bool> windowed_blocks(const JsonObject& config, const DecoderOptions& o,
                                  std::int64_t full) {
  std::vector<bool> windowed;
  if (!config.has("layer_types")) {
    for (std::int64_t i = 1; i <= o.layers; ++i) windowed.push_back(i % full != 0);
    return windowed;
  }
  for (const std::string& type : config.texts("layer_types")) {
    if (type != "sliding_attention" && type != "full_attention")
      config.refuse("layer_types", "\"full_attention\" and \"sliding_attention\" alone");
    windowed.push_back(type == "sliding_attention");
  }
  if (static_cast<std::int64_t>(windowed.size()) != o.layers)
    config.refuse("layer_types", fmt::format("one for each of {} blocks", o.layers));
  return windowed;
}

/// A window of all blocks. Without the key it is `otherwise`; 0: none.
void read_window(const JsonObject& config, DecoderOptions& o, std::int64_t otherwise = 0) {
  constexpr const char* kWindow = "sliding_window";
  o.variant.window = config.is_null(kWindow) ? 0 : size_or(config, kWindow, otherwise);
}

// ---- families

/// Keys that all families that vary Llama have.
DecoderOptions llama_options(const JsonObject& config) {
  config.expect("rope_interleaved", false);
  config.expect("mlp_bias", false);
  DecoderOptions o{
      .kind = DecoderKind::llama,
      .layers = config.whole("num_hidden_layers", 1, kMostBlocks),
      .hidden = size(config, "hidden_size"),
      .heads = size(config, "num_attention_heads"),
      .key_heads = size_or(config, "num_key_value_heads", 0),
      .sequence = size(config, "max_position_embeddings"),
      .vocabulary = size(config, "vocab_size"),
      .feed_forward = size(config, "intermediate_size"),
      .head_bias = false,
      .tied_head = config.has("tie_word_embeddings") && config.boolean("tie_word_embeddings"),
      .norm_epsilon = 1e-6};
  if (config.has("attention_bias"))
    o.query_bias = o.projection_bias = config.boolean("attention_bias");
  if (config.has("rms_norm_eps")) o.norm_epsilon = config.positive("rms_norm_eps");
  if (config.has("head_dim"))
    o.head_width = size(config, "head_dim");
  else
    check_heads(config, "num_attention_heads", o.heads, o.hidden);
  if (head_width_of(o) % 2 != 0)
    config.refuse("head_dim", "an even number, as rotary positions turn pairs");
  if (o.head_width * o.heads == o.hidden) o.head_width = 0;
  if (o.key_heads > 0 && o.heads % o.key_heads != 0)
    config.refuse("num_key_value_heads", fmt::format("a divisor of the {} heads", o.heads));
  return o;
}

void vary_llama(const JsonObject& config, DecoderOptions& o) {
  config.expect_one_of("hidden_act", {"silu"});
  read_rotary(config, o);
}

void vary_mistral(const JsonObject& config, DecoderOptions& o) {
  vary_llama(config, o);
  read_window(config, o, 4096);
}

/// Qwen2 and 3: the first blocks see all, where there is a window.
void vary_qwen(const JsonObject& config, DecoderOptions& o) {
  vary_llama(config, o);
  if (!config.has("use_sliding_window") || !config.boolean("use_sliding_window")) return;
  read_window(config, o, 4096);
  if (config.has("layer_types")) {
    o.variant.windowed = windowed_blocks(config, o, 1);
    return;
  }
  const std::int64_t full = config.whole("max_window_layers", 0, kMost);
  for (std::int64_t i = 0; i < o.layers; ++i) o.variant.windowed.push_back(i >= full);
}

void vary_qwen2(const JsonObject& config, DecoderOptions& o) {
  o.query_bias = true;
  vary_qwen(config, o);
}

void vary_qwen3(const JsonObject& config, DecoderOptions& o) {
  o.variant.head_norms = true;
  vary_qwen(config, o);
}

/// Experts of every block.
void read_experts(const JsonObject& config, const char* count, DecoderOptions& o) {
  DecoderExperts& experts = o.variant.experts;
  experts.count = config.whole(count, 1, kMostExperts);
  experts.choices = static_cast<int>(config.whole("num_experts_per_tok", 1, experts.count));
}

void vary_qwen3_moe(const JsonObject& config, DecoderOptions& o) {
  vary_qwen3(config, o);
  config.expect("norm_topk_prob", true);
  if (!config.has("norm_topk_prob")) config.refuse("norm_topk_prob", "true");
  if (size_or(config, "decoder_sparse_step", 1) != 1) config.refuse("decoder_sparse_step", "1");
  if (config.has("mlp_only_layers") && !config.wholes("mlp_only_layers", kMost).empty())
    config.refuse("mlp_only_layers", "no blocks");
  read_experts(config, config.has("num_experts") ? "num_experts" : "num_local_experts", o);
  o.feed_forward = size(config, "moe_intermediate_size");
  o.variant.names = DecoderNames::qwen3_moe;
}

void vary_mixtral(const JsonObject& config, DecoderOptions& o) {
  vary_llama(config, o);
  read_window(config, o);
  read_experts(config, "num_local_experts", o);
  o.variant.names = DecoderNames::mixtral;
}

void vary_phi3(const JsonObject& config, DecoderOptions& o) {
  vary_llama(config, o);
  read_window(config, o);
  o.variant.names = DecoderNames::phi3;
}

/// Gemma's head is tied unless the file says otherwise.
void vary_gemma(const JsonObject& config, DecoderOptions& o) {
  // "gelu" of the first files was read as its tanh form, which Gemma was trained with.
  const bool renamed = config.has("hidden_activation");
  if (renamed)
    config.expect_one_of("hidden_activation", {"gelu_pytorch_tanh"});
  else
    config.expect_one_of("hidden_act", {"gelu_pytorch_tanh", "gelu"});
  config.expect("use_bidirectional_attention", false);
  if (!config.has("tie_word_embeddings")) o.tied_head = true;
  o.variant.scales_from_one = o.variant.gelu_gate = true;
  o.variant.embedding_scale = std::sqrt(static_cast<double>(o.hidden));
}

void vary_gemma1(const JsonObject& config, DecoderOptions& o) {
  vary_gemma(config, o);
  read_rotary(config, o);
}

/// What Gemma 2 and 3 share.
void vary_later_gemma(const JsonObject& config, DecoderOptions& o, std::int64_t full) {
  vary_gemma(config, o);
  o.variant.norms_behind = true;
  o.variant.score_scale = 1 / std::sqrt(config.positive("query_pre_attn_scalar"));
  if (config.has("attn_logit_softcapping"))
    o.variant.score_cap = config.positive("attn_logit_softcapping");
  if (config.has("final_logit_softcapping"))
    o.variant.logit_cap = config.positive("final_logit_softcapping");
  read_window(config, o, 4096);
  o.variant.windowed = windowed_blocks(config, o, full);
}

void vary_gemma2(const JsonObject& config, DecoderOptions& o) {
  vary_later_gemma(config, o, 2);
  read_rotary(config, o);
}

/// Blocks with a window have positions of their own.
void vary_gemma3(const JsonObject& config, DecoderOptions& o) {
  vary_later_gemma(config, o, size_or(config, "sliding_window_pattern", 6));
  o.variant.head_norms = true;
  o.rotary_base = 1e6;
  o.variant.windowed_rotary_base = 1e4;
  if (!config.has("rope_parameters")) {
    read_rotary(config, o);
    if (config.has("rope_local_base_freq"))
      o.variant.windowed_rotary_base = config.positive("rope_local_base_freq");
    return;
  }
  const JsonObject rotary = config.object("rope_parameters"),
                   windowed = rotary.object("sliding_attention");
  read_rotary_object(config, rotary.object("full_attention"), o);
  windowed.expect_one_of("rope_type", {"default"});
  if (windowed.has("rope_theta")) o.variant.windowed_rotary_base = windowed.positive("rope_theta");
}

/// DeepSeek-V2 and V3: planned, but not loaded. How tokens are scored and positions scaled changes
/// no cost, so it is not read.
void vary_deepseek(const JsonObject& config, DecoderOptions& o) {
  config.expect_one_of("hidden_act", {"silu"});
  config.expect("attention_bias", false);
  if (size_or(config, "moe_layer_freq", 1) != 1) config.refuse("moe_layer_freq", "1");
  LatentSizes& latent = o.variant.latent;
  latent = {.query_rank = size_or(config, "q_lora_rank", 0),
            .key_rank = size(config, "kv_lora_rank"),
            .plain = size(config, "qk_nope_head_dim"),
            .turned = size(config, "qk_rope_head_dim"),
            .values = size(config, "v_head_dim")};
  if (latent.turned % 2 != 0)
    config.refuse("qk_rope_head_dim", "an even number, as rotary positions turn pairs");
  if (latent.values > latent.width())
    config.refuse("v_head_dim",
                  fmt::format("at most qk_nope_head_dim + qk_rope_head_dim, {}", latent.width()));
  o.key_heads = 0, o.head_width = latent.width();
  DecoderExperts& experts = o.variant.experts;
  read_experts(config, "n_routed_experts", o);
  experts.first = config.whole("first_k_dense_replace", 0, o.layers);
  experts.dense = o.feed_forward;
  o.feed_forward = size(config, "moe_intermediate_size");
  experts.shared = config.has("n_shared_experts")
                       ? config.whole("n_shared_experts", 0, kMostExperts) * o.feed_forward
                       : 0;
  o.variant.names = DecoderNames::none;
}

/// A `model_type` and what it does otherwise than Llama.
struct Family {
  const char* type;
  void (*vary)(const JsonObject& config, DecoderOptions& o);
};
constexpr Family kFamilies[] = {
    {"llama", vary_llama},  {"mistral", vary_mistral},      {"qwen2", vary_qwen2},
    {"qwen3", vary_qwen3},  {"mixtral", vary_mixtral},      {"qwen3_moe", vary_qwen3_moe},
    {"gemma", vary_gemma1}, {"gemma2", vary_gemma2},        {"gemma3_text", vary_gemma3},
    {"phi3", vary_phi3},    {"deepseek_v2", vary_deepseek}, {"deepseek_v3", vary_deepseek}};

}  // namespace

DecoderOptions decoder_options(const JsonObject& config) {
  const std::string type = config.text("model_type");
  if (type == "gpt2") return gpt2_options(config);
  std::string known = "\"gpt2\"";
  for (const Family& family : kFamilies) {
    if (type != family.type) {
      known +=
          fmt::format("{}\"{}\"", &family == std::end(kFamilies) - 1 ? " or " : ", ", family.type);
      continue;
    }
    DecoderOptions options = llama_options(config);
    family.vary(config, options);
    return options;
  }
  config.refuse("model_type", known);
}

DecoderOptions read_decoder_options(const std::string& path) {
  return decoder_options(JsonObject(path));
}

}  // namespace alpa::models
