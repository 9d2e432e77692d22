// src/models/pretrained.cc — decoders' folders as transformers writes them
#include "alpa/models/pretrained.h"

#include <filesystem>
#include <limits>

#include "src/models/json_object.h"

namespace alpa::models {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  ///< extents and tokens

bool is_file(const std::string& path) {
  std::error_code unreadable;  // is told by who opens it
  return std::filesystem::exists(path, unreadable);
}

std::int64_t size(const JsonObject& config, const char* key) { return config.whole(key, 1, kMost); }

std::int64_t size_or(const JsonObject& config, const char* key, std::int64_t otherwise) {
  return config.has(key) ? size(config, key) : otherwise;
}

/// Throws Error unless the heads divide the width.
void check_heads(const JsonObject& config, const char* key, const DecoderOptions& o) {
  if (o.hidden % o.heads != 0)
    config.refuse(key, fmt::format("a divisor of the width {}", o.hidden));
}

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
  check_heads(config, "n_head", o);
  return o;
}

/// Of Llama 3.1 and later.
RotaryScaling llama3_scaling(const JsonObject& rotary) {
  const RotaryScaling scaling{
      .factor = rotary.positive("factor"),
      .original_positions = size(rotary, "original_max_position_embeddings"),
      .low_turns = rotary.positive("low_freq_factor"),
      .high_turns = rotary.positive("high_freq_factor")};
  if (scaling.high_turns <= scaling.low_turns)
    rotary.refuse("high_freq_factor", fmt::format("a number above {}", scaling.low_turns));
  return scaling;
}

/// `type`: the key of the kind of scaling.
std::optional<RotaryScaling> read_scaling(const JsonObject& rotary, const char* type) {
  const std::string kind = rotary.text(type);
  if (kind == "default") return {};
  if (kind == "linear") return RotaryScaling{.factor = rotary.positive("factor")};
  if (kind == "llama3") return llama3_scaling(rotary);
  rotary.refuse(type, "\"default\", \"linear\" or \"llama3\"");
}

/// Base and scaling of rotary positions: in one object since transformers 5, in two places before.
void read_rotary(const JsonObject& config, DecoderOptions& o) {
  const bool one_object = config.has("rope_parameters");
  const JsonObject base = one_object ? config.object("rope_parameters") : config;
  if (base.has("rope_theta")) o.rotary_base = base.positive("rope_theta");
  if (base.has("partial_rotary_factor") && base.positive("partial_rotary_factor") != 1)
    base.refuse("partial_rotary_factor", "1");
  if (!one_object && !config.has("rope_scaling")) return;
  const JsonObject scaling = one_object ? base : config.object("rope_scaling");
  const char* type = scaling.has("rope_type") || !scaling.has("type") ? "rope_type" : "type";
  o.rotary_scaling = read_scaling(scaling, type);
}

/// Llama's, and those of Qwen2 and Mistral, which differ in biases alone where they have no window.
DecoderOptions llama_options(const JsonObject& config) {
  config.expect_one_of("hidden_act", {"silu"});
  config.expect("mlp_bias", false);
  config.expect("rope_interleaved", false);
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
  check_heads(config, "num_attention_heads", o);
  if (o.key_heads > 0 && o.heads % o.key_heads != 0)
    config.refuse("num_key_value_heads", fmt::format("a divisor of the {} heads", o.heads));
  if (size_or(config, "head_dim", o.hidden / o.heads) != o.hidden / o.heads)
    config.refuse("head_dim", fmt::format("{}, the width by the heads", o.hidden / o.heads));
  read_rotary(config, o);
  return o;
}

/// Throws Error if attention sees a window of the tokens, fewer than the model has positions.
/// Without the key, transformers gives Mistral one of 4096.
void check_window(const JsonObject& config, const DecoderOptions& o) {
  constexpr const char* kWindow = "sliding_window";
  const bool wide = config.has(kWindow) ? size(config, kWindow) >= o.sequence
                                        : config.is_null(kWindow) || o.sequence <= 4096;
  if (!wide) config.refuse(kWindow, fmt::format("null, or at least the {} positions", o.sequence));
}

DecoderOptions decoder_options(const JsonObject& config) {
  const std::string type = config.text("model_type");
  if (type == "gpt2") return gpt2_options(config);
  if (type != "llama" && type != "qwen2" && type != "mistral")
    config.refuse("model_type", "\"gpt2\", \"llama\", \"qwen2\" or \"mistral\"");
  DecoderOptions options = llama_options(config);
  if (type == "mistral") check_window(config, options);
  if (type == "qwen2") {
    config.expect("use_sliding_window", false);
    options.query_bias = true;
  }
  return options;
}

std::string weights_in(const std::string& folder) {
  for (const char* name : {"/model.safetensors", "/model.safetensors.index.json"})
    if (is_file(folder + name)) return folder + name;
  fail(
      "{}: has neither model.safetensors nor model.safetensors.index.json; save_pretrained of "
      "transformers writes one of them",
      excerpt(folder));
}

/// Of generation_config.json, else of config.json.
std::vector<std::int32_t> stop_tokens(const std::string& folder, const JsonObject& config) {
  const auto read = [](const JsonObject& object) {
    const auto numbers = object.wholes("eos_token_id", kMost);
    return std::vector<std::int32_t>(numbers.begin(), numbers.end());
  };
  constexpr const char* kName = "/generation_config.json";
  if (is_file(folder + kName)) {
    const JsonObject generation(folder + kName);
    if (generation.has("eos_token_id")) return read(generation);
  }
  return config.has("eos_token_id") ? read(config) : std::vector<std::int32_t>{};
}

}  // namespace

DecoderOptions read_decoder_options(const std::string& path) {
  return decoder_options(JsonObject(path));
}

Pretrained read_pretrained(const std::string& folder) {
  const JsonObject config(folder + "/config.json");
  Pretrained model{.folder = folder, .weights = weights_in(folder), .stop_tokens = {}};
  model.decoder = decoder_options(config);
  model.stop_tokens = stop_tokens(folder, config);
  return model;
}

}  // namespace alpa::models
