// src/models/gguf_config.cc — decoders' options from GGUF's metadata, and to them
#include "src/models/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "kernels/plan/rotary_shape.h"
#include "src/base/json_place.h"
#include "src/models/decoder_config.h"

namespace alpa::models {
namespace {

using Json = nlohmann::json;

constexpr const char* kArchitecture = "general.architecture";
constexpr std::int64_t kLlama3Positions = 8192;     ///< of training, in Llama 3.1 to 3.3
constexpr std::int64_t kMostPositions = 1LL << 30;  ///< of training

double number(std::int64_t whole) { return static_cast<double>(whole); }

double epsilon_of(const DecoderOptions& o) {
  if (o.norm_epsilon > 0) return o.norm_epsilon;
  return o.kind == DecoderKind::gpt ? 1e-5 : 1e-6;
}

std::int64_t feed_forward_of(const DecoderOptions& o) {
  return o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden;
}

std::int64_t key_heads_of(const DecoderOptions& o) {
  return o.key_heads > 0 ? o.key_heads : o.heads;
}

/// A key below the architecture's name, its name in config.json or null, and a decoder's number, of
/// which 0 is not written.
struct Key {
  const char *gguf, *config;
  double value;
  bool whole = true;
};

std::vector<Key> gpt_keys(const DecoderOptions& o) {
  return {{"block_count", "n_layer", number(o.layers)},
          {"context_length", "n_positions", number(o.sequence)},
          {"embedding_length", "n_embd", number(o.hidden)},
          {"feed_forward_length", "n_inner", number(feed_forward_of(o))},
          {"attention.head_count", "n_head", number(o.heads)},
          {"attention.layer_norm_epsilon", "layer_norm_epsilon", epsilon_of(o), false}};
}

std::vector<Key> keys_of(const DecoderOptions& o) {
  if (o.kind == DecoderKind::gpt) return gpt_keys(o);
  const DecoderVariant& v = o.variant;
  const bool experts = v.experts.count > 0;
  const double width = number(head_width_of(o));
  return {{"block_count", "num_hidden_layers", number(o.layers)},
          {"context_length", "max_position_embeddings", number(o.sequence)},
          {"embedding_length", "hidden_size", number(o.hidden)},
          {"feed_forward_length", "intermediate_size", number(feed_forward_of(o))},
          {"attention.head_count", "num_attention_heads", number(o.heads)},
          {"attention.head_count_kv", "num_key_value_heads", number(key_heads_of(o))},
          {"attention.key_length", "head_dim", width},
          {"attention.value_length", nullptr, width},
          {"attention.layer_norm_rms_epsilon", "rms_norm_eps", epsilon_of(o), false},
          {"vocab_size", "vocab_size", number(o.vocabulary)},
          {"attention.sliding_window", "sliding_window", number(v.window)},
          {"attn_logit_softcapping", "attn_logit_softcapping", v.score_cap, false},
          {"final_logit_softcapping", "final_logit_softcapping", v.logit_cap, false},
          {"expert_count", "num_local_experts", number(v.experts.count)},
          {"expert_used_count", "num_experts_per_tok", number(experts ? v.experts.choices : 0)},
          {"expert_feed_forward_length", "moe_intermediate_size",
           number(experts ? feed_forward_of(o) : 0)},
          {"rope.freq_base", "rope_theta", o.rotary_base, false},
          {"rope.freq_base_swa", "rope_local_base_freq", v.windowed_rotary_base, false},
          {"rope.dimension_count", nullptr, width * v.rotary_share}};
}

/// A decoder's architecture.
std::string architecture_of(const DecoderOptions& o) {
  const DecoderVariant& v = o.variant;
  if (o.kind == DecoderKind::gpt) return "gpt2";
  if (v.names == DecoderNames::phi3) return "phi3";
  if (v.names == DecoderNames::qwen3_moe) return "qwen3moe";
  if (v.scales_from_one) return v.head_norms ? "gemma3" : v.norms_behind ? "gemma2" : "gemma";
  if (v.head_norms) return "qwen3";
  return o.query_bias && !o.projection_bias ? "qwen2" : "llama";
}

/// `model_type` of an architecture.
std::string model_type(const std::string& architecture, bool experts) {
  if (architecture == "llama" && experts) return "mixtral";
  if (architecture == "qwen3moe") return "qwen3_moe";
  return architecture == "gemma3" ? "gemma3_text" : architecture;
}

/// What is known by tensors, not by keys.
struct Found {
  bool own_head = false, biases = false;
  std::int64_t vocabulary = 0;
  std::vector<float> frequency_factors = {};                 ///< divisors, of Llama 3.1's scaling
  std::vector<float> short_factors = {}, long_factors = {};  ///< of LongRoPE
};

/// The scaling that keys name, as config.json has it; null if there is none.
Json rotary_scaling(const JsonPlace& metadata, const std::string& scope, const Found& found) {
  const auto at = [&](const char* key) { return metadata.at((scope + key).c_str()); };
  const auto has = [&](const char* key) { return metadata.contains((scope + key).c_str()); };
  if (!found.long_factors.empty()) {
    Json scaling = {{"rope_type", "longrope"},
                    {"short_factor", found.short_factors},
                    {"long_factor", found.long_factors}};
    if (has("rope.scaling.attn_factor"))
      scaling["attention_factor"] = at("rope.scaling.attn_factor").number();
    if (has("rope.scaling.original_context_length"))
      scaling["original_max_position_embeddings"] =
          at("rope.scaling.original_context_length").count(kMostPositions);
    return scaling;
  }
  if (!has("rope.scaling.type") || at("rope.scaling.type").text() == "none") return {};
  Json scaling = {{"rope_type", at("rope.scaling.type").text()},
                  {"factor", at("rope.scaling.factor").number()}};
  if (constexpr const char* kPositions = "rope.scaling.original_context_length"; has(kPositions))
    scaling["original_max_position_embeddings"] = at(kPositions).count(kMostPositions);
  return scaling;
}

/// The scale of attention's scores, which Gemma 2 and 3 do not store: by their width, but for those
/// of 27B.
std::uint64_t attention_scalar(const Json& config, const std::string& architecture) {
  const auto number = [&](const char* key) {
    return config.contains(key) && config.at(key).is_number_unsigned()
               ? config.at(key).get<std::uint64_t>()
               : std::uint64_t{1};
  };
  const std::uint64_t layers = number("num_hidden_layers"),
                      heads = std::max<std::uint64_t>(number("num_attention_heads"), 1);
  const bool largest = layers == (architecture == "gemma2" ? 46 : 62);
  return largest ? number("hidden_size") / heads : number("head_dim");
}

/// What config.json says that no key does.
void add_constants(Json& config, const std::string& architecture, const Found& found) {
  config["tie_word_embeddings"] = !found.own_head;
  if (architecture == "llama") config["attention_bias"] = found.biases;
  if (architecture == "qwen3moe") config["norm_topk_prob"] = true;
  if (architecture == "gemma2" || architecture == "gemma3")
    config["query_pre_attn_scalar"] = attention_scalar(config, architecture);
}

/// The share of a head that positions turn.
void add_share(Json& config, const JsonPlace& metadata, const std::string& scope) {
  const std::string key = scope + "rope.dimension_count";
  if (!metadata.contains(key.c_str())) return;
  const double turned = metadata.at(key.c_str()).number();
  const auto number = [&](const char* name) {
    return config.contains(name) && config.at(name).is_number() ? config.at(name).get<double>() : 0;
  };
  const double heads = number("num_attention_heads"),
               width = config.contains("head_dim") ? number("head_dim")
                       : heads > 0                 ? number("hidden_size") / heads
                                                   : 0;
  if (width > 0 && turned != width) config["partial_rotary_factor"] = turned / width;
}

Json config_of(const Json& metadata, const std::string& origin, const Found& found) {
  const JsonPlace place(metadata, origin);
  const std::string architecture = place.at(kArchitecture).text(), scope = architecture + ".";
  const bool gpt = architecture == "gpt2";
  const std::string experts = scope + "expert_count";
  const bool has_experts =
      place.contains(experts.c_str()) && place.at(experts.c_str()).number() > 0;
  Json config = {{"model_type", model_type(architecture, has_experts)}};
  for (const Key& key : keys_of({.kind = gpt ? DecoderKind::gpt : DecoderKind::llama})) {
    const auto value = metadata.find(scope + key.gguf);
    if (value != metadata.end() && key.config != nullptr) config[key.config] = *value;
  }
  if (!config.contains("vocab_size"))
    config["vocab_size"] = static_cast<std::uint64_t>(found.vocabulary);
  place.at((scope + "block_count").c_str());  // else another name would be missing
  if (gpt) return config;
  add_constants(config, architecture, found);
  add_share(config, place, scope);
  if (Json scaling = rotary_scaling(place, scope, found); !scaling.is_null())
    config["rope_scaling"] = std::move(scaling);
  return config;
}

/// Divisors of the frequencies of a decoder with the scaling of Llama 3.1; else none.
std::vector<float> frequency_factors(const DecoderOptions& o) {
  const RotaryScaling scaling = o.rotary_scaling.value_or(RotaryScaling{});
  if (scaling.yarn || !scaling.factors.empty() || scaling.original_positions == 0) return {};
  kernels::RotaryShape shape{.width = head_width_of(o), .base = o.rotary_base};
  std::vector<float> factors;
  for (std::int64_t i = 0; i < shape.width / 2; ++i) {
    shape.original_positions = 0, shape.factor = 1;
    const double written = kernels::rotary_frequency(shape, i);
    shape.original_positions = static_cast<double>(scaling.original_positions);
    shape.factor = scaling.factor;
    shape.low_turns = scaling.low_turns, shape.high_turns = scaling.high_turns;
    factors.push_back(static_cast<float>(written / kernels::rotary_frequency(shape, i)));
  }
  return factors;
}

/// The scaling of Llama 3.1 that has these factors. Throws Error if none has.
RotaryScaling scaling_of(const std::string& path, DecoderOptions options,
                         const std::vector<float>& factors) {
  RotaryScaling scaling;  // whose turns are those of all of these models
  if (!factors.empty()) scaling.factor = *std::ranges::max_element(factors);
  const auto close = [](float a, float b) { return std::abs(a - b) <= 1e-3F * std::abs(b); };
  const bool fit = std::ssize(factors) == head_width_of(options) / 2;
  for (scaling.original_positions = kLlama3Positions; fit && scaling.original_positions > 0;) {
    options.rotary_scaling = scaling;
    if (std::ranges::equal(factors, frequency_factors(options), close)) return scaling;
    std::int64_t& positions = scaling.original_positions;  // of others, powers of two
    positions = positions == kLlama3Positions ? kMostPositions : positions / 2;
    if (positions == kLlama3Positions) positions /= 2;
  }
  fail(
      "{}: tensor \"rope_freqs.weight\": its factors are not of Llama 3.1's scaling, which alone "
      "alpa has",
      path);
}

/// Everything that a decoder computes, by name.
std::vector<std::pair<std::string, double>> facts_of(const DecoderOptions& o) {
  const DecoderVariant& v = o.variant;
  const RotaryScaling scaling = o.rotary_scaling.value_or(RotaryScaling{});
  const std::vector<float> factors = frequency_factors(o);
  const auto yarn = [&](double fact) { return scaling.yarn ? fact : 0; };
  std::vector<std::pair<std::string, double>> facts = {
      {"own head", !o.tied_head},
      {"bias of the head", o.kind == DecoderKind::gpt && o.head_bias},
      {"biases of queries", o.query_bias},
      {"bias of attention's projection", o.projection_bias},
      {"factor of rotary scaling", scaling.factor},
      {"scaling of rotary positions", scaling.yarn      ? 1
                                      : factors.empty() ? 0
                                                        : 2},
      {"positions of YaRN", yarn(number(scaling.original_positions))},
      {"low turns of YaRN", yarn(scaling.low_turns)},
      {"high turns of YaRN", yarn(scaling.high_turns)},
      {"packing of weights", static_cast<int>(v.names)},
      {"norms of heads", v.head_norms},
      {"scales from one", v.scales_from_one},
      {"norms behind", v.norms_behind},
      {"activation of the gate", v.gelu_gate},
      {"scale of the embedding", v.embedding_scale},
      {"scale of the scores", v.score_scale.value_or(1 / std::sqrt(number(head_width_of(o))))}};
  for (const Key& key : keys_of(o)) facts.emplace_back(key.gguf, key.value);
  for (const float factor : factors) facts.emplace_back("scaling of a pair", factor);
  for (std::int64_t i = 0; i < o.layers && v.window > 0; ++i)
    facts.emplace_back(fmt::format("window of block {}", i),
                       v.windowed.empty() || v.windowed[static_cast<std::size_t>(i)]);
  return facts;
}

/// The decoder of metadata and tensors.
DecoderOptions options_of(const Json& metadata, const std::string& origin, const Found& found) {
  DecoderOptions options =
      decoder_options(JsonObject(origin + ", as config.json", config_of(metadata, origin, found)));
  if (!found.frequency_factors.empty())
    options.rotary_scaling = scaling_of(origin, options, found.frequency_factors);
  return options;
}

/// Throws Error unless a reader of the metadata gets the options back.
void check_options(const DecoderOptions& options, const Json& metadata, const Found& found) {
  const auto given = facts_of(options), read = facts_of(options_of(metadata, "GGUF", found));
  for (std::size_t i = 0; i < std::min(given.size(), read.size()); ++i)
    require(std::abs(read[i].second - given[i].second) <= 1e-6 * std::abs(given[i].second),
            "GGUF cannot hold this decoder: its {} would become {} instead of {}; save a "
            "safetensors file or a folder",
            given[i].first, read[i].second, given[i].second);
}

}  // namespace

DecoderOptions gguf_options(const GgufFile& file) {
  Found found{.own_head = file.find("output.weight") != nullptr,
              .biases = file.find("blk.0.attn_q.bias") != nullptr};
  const GgufTensor* const table = file.find("token_embd.weight");
  if (table != nullptr && !table->shape.empty()) found.vocabulary = table->shape[0];
  for (const auto& [name, factors] : {std::pair("rope_freqs.weight", &found.frequency_factors),
                                      {"rope_factors_short.weight", &found.short_factors},
                                      {"rope_factors_long.weight", &found.long_factors}}) {
    const GgufTensor* const tensor = file.find(name);
    if (tensor == nullptr) continue;
    const Array floats = tensor->read().cast(f32);
    const auto elements = floats.elements_as<float>();
    factors->assign(elements.begin(), elements.end());
  }
  return options_of(file.metadata(), file.path(), found);
}

GgufConfig gguf_config(const DecoderOptions& options) {
  const std::string architecture = architecture_of(options), scope = architecture + ".";
  require(!options.rotary_scaling || options.rotary_scaling->factors.empty(),
          "GGUF: alpa writes no LongRoPE there; save a safetensors file or a folder");
  GgufConfig result{.metadata = {{kArchitecture, architecture}},
                    .frequency_factors = frequency_factors(options)};
  for (const Key& key : keys_of(options))
    if (key.value != 0) {
      nlohmann::ordered_json& value = result.metadata[scope + key.gguf];
      if (key.whole)
        value = static_cast<std::uint64_t>(key.value);
      else
        value = key.value;
    }
  const RotaryScaling scaling = options.rotary_scaling.value_or(RotaryScaling{});
  if (options.rotary_scaling && result.frequency_factors.empty()) {
    result.metadata[scope + "rope.scaling.type"] = scaling.yarn ? "yarn" : "linear";
    result.metadata[scope + "rope.scaling.factor"] = scaling.factor;
  }
  check_options(options, Json(result.metadata),
                {.own_head = !options.tied_head,
                 .biases = options.query_bias,
                 .vocabulary = options.vocabulary,
                 .frequency_factors = result.frequency_factors});
  return result;
}

}  // namespace alpa::models
