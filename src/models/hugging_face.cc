// src/models/hugging_face.cc — decoders' weights under the names of Hugging Face's transformers
#include "alpa/models/hugging_face.h"

#include <cstring>

#include "kernels/plan/quantized_block.h"
#include "src/models/weight_names.h"

namespace alpa::models {
namespace {

bool is_gpt(const DecoderOptions& options) { return options.kind == DecoderKind::gpt; }

/// Kernels of GPT-2's Conv1D are [in, out], as here.
LayerNames gpt2_block(const DecoderOptions& o) {
  return {{"attention_norm", "ln_1"},
          {"attention.query", "attn.c_attn", 0},
          {"attention.key", "attn.c_attn", o.hidden},
          {"attention.value", "attn.c_attn", 2 * o.hidden},
          {"attention.projection", "attn.c_proj"},
          {"feed_forward_norm", "ln_2"},
          {"feed_forward.up", "mlp.c_fc"},
          {"feed_forward.down", "mlp.c_proj"}};
}

LayerNames norm_names(const DecoderOptions& o) {
  if (!o.variant.norms_behind)
    return {{"attention_norm", "input_layernorm"},
            {"feed_forward_norm", "post_attention_layernorm"}};
  return {{"attention_norm", "input_layernorm"},
          {"attention_norm_behind", "post_attention_layernorm"},
          {"feed_forward_norm", "pre_feedforward_layernorm"},
          {"feed_forward_norm_behind", "post_feedforward_layernorm"}};
}

/// Kernels are [out, in]. Rotary positions turn halves, as here: rows are not exchanged.
LayerNames attention_names(const DecoderOptions& o) {
  LayerNames names = {{"attention.query", "self_attn.q_proj"},
                      {"attention.key", "self_attn.k_proj"},
                      {"attention.value", "self_attn.v_proj"},
                      {"attention.projection", "self_attn.o_proj"}};
  if (o.variant.head_norms)
    names.insert(names.end(), {{"attention.query_norm", "self_attn.q_norm"},
                               {"attention.key_norm", "self_attn.k_norm"}});
  if (o.variant.names != DecoderNames::phi3) return names;
  const std::int64_t width = head_width_of(o),
                     keys = width * (o.key_heads > 0 ? o.key_heads : o.heads);
  for (std::size_t i = 0; i < 3; ++i)
    names[i].tensor = "self_attn.qkv_proj",
    names[i].start = i == 0 ? 0 : o.heads * width + static_cast<std::int64_t>(i - 1) * keys;
  return names;
}

LayerNames feed_forward_names(const DecoderOptions& o) {
  const bool packed = o.variant.names == DecoderNames::phi3;
  LayerNames names = {{"feed_forward.gate", "mlp.gate_proj"},
                      {"feed_forward.up", "mlp.up_proj"},
                      {"feed_forward.down", "mlp.down_proj"}};
  if (packed)
    names[0] = {"feed_forward.gate", "mlp.gate_up_proj", 0},
    names[1] = {"feed_forward.up", "mlp.gate_up_proj", o.feed_forward};
  return names;
}

LayerNames block_names(const DecoderOptions& o) {
  if (is_gpt(o)) return gpt2_block(o);
  LayerNames names = norm_names(o);
  for (const LayerName& name : attention_names(o)) names.push_back(name);
  if (o.variant.experts.count > 0) return names;  // `add_experts` has the others
  for (const LayerName& name : feed_forward_names(o)) names.push_back(name);
  return names;
}

/// Whether a layer has a bias: all of GPT-2's, and of Llama's as the options say.
bool has_bias(const DecoderOptions& o, std::string_view layer) {
  if (is_gpt(o)) return true;
  if (layer == "attention.projection") return o.projection_bias;
  return o.query_bias && layer.starts_with("attention.") && !layer.ends_with("norm");
}

/// Adds the parameters of a layer of the decoder.
void add_decoder_layer(WeightMap& map, const DecoderOptions& o, const LayerName& name,
                       const std::string& scope = "", const std::string& place = "") {
  add_layer(map, name, {.transposed = !is_gpt(o), .bias = has_bias(o, name.layer)}, scope, place);
}

/// Adds the router and the experts of a block, each of which has tensors of its own.
void add_experts(WeightMap& map, const DecoderOptions& o, const std::string& scope,
                 const std::string& place) {
  const bool mixtral = o.variant.names == DecoderNames::mixtral;
  const std::string experts = place + (mixtral ? "block_sparse_moe." : "mlp.");
  map.push_back({.parameter = scope + "feed_forward.gate",
                 .tensors = {experts + "gate.weight"},
                 .transposed = true});
  const std::pair<const char*, const char*> layers[] = {
      {"expert_gate", mixtral ? "w1" : "gate_proj"},
      {"up", mixtral ? "w3" : "up_proj"},
      {"down", mixtral ? "w2" : "down_proj"}};
  for (const auto& [layer, tensor] : layers) {
    WeightName& weight = map.emplace_back();
    weight.parameter = fmt::format("{}feed_forward.{}", scope, layer);
    weight.transposed = weight.stacked = true;
    weight.axis = 0;
    for (std::int64_t e = 0; e < o.variant.experts.count; ++e)
      weight.tensors.push_back(fmt::format("{}experts.{}.{}.weight", experts, e, tensor));
  }
}

/// `place`: "transformer.", "model." or nothing, before all names of the file except the head's.
WeightMap names_below(const DecoderOptions& o, const std::string& place) {
  const bool gpt = is_gpt(o);
  WeightMap map{{"tokens.table", {place + (gpt ? "wte.weight" : "embed_tokens.weight")}}};
  if (gpt) map.push_back({"positions.table", {place + "wpe.weight"}});
  const LayerNames block = block_names(o);
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string scope = fmt::format("blocks.{}.", i),
                      of_block = fmt::format("{}{}.{}.", place, gpt ? "h" : "layers", i);
    for (const LayerName& name : block) add_decoder_layer(map, o, name, scope, of_block);
    if (o.variant.experts.count > 0) add_experts(map, o, scope, of_block);
  }
  add_decoder_layer(map, o, {"norm", gpt ? "ln_f" : "norm"}, "", place);
  if (!o.tied_head) add_decoder_layer(map, o, {"head", "lm_head"});
  return map;
}

/// Throws Error if the file has a block behind the decoder's last, whose weights would be left out.
void check_layers(const TensorFile& file, const DecoderOptions& options) {
  const std::string block = fmt::format("{}.{}.", is_gpt(options) ? "h" : "layers", options.layers);
  for (const std::string& name : file.names())
    require(!name.starts_with(block) && name.find("." + block) == std::string::npos,
            "{}: has tensor \"{}\", but the decoder has {} layers; give it all of the file's",
            file.path(), name, options.layers);
}

/// Throws Error if the head of a tied decoder is another table in the file.
void check_head(const TensorFile& file, const std::string& table, const DecoderOptions& options) {
  if (!options.tied_head || !file.contains("lm_head.weight")) return;
  require(same_tensor(file, "lm_head.weight", table),
          "{}: tensor \"lm_head.weight\" is not \"{}\", so the decoder needs a head of its own",
          file.path(), table);
}

/// The map to the names of the file, which has them with the prefix or without.
WeightMap names_in(const TensorFile& file, const DecoderOptions& options) {
  check_layers(file, options);
  const bool prefixed = !file.contains(is_gpt(options) ? "wte.weight" : "embed_tokens.weight");
  return hugging_face_names(options, prefixed);
}

}  // namespace

void add_layer(WeightMap& map, const LayerName& name, const LayerForm& form,
               const std::string& scope, const std::string& place) {
  const std::string layer = fmt::format("{}{}.", scope, name.layer);
  const std::string tensor = fmt::format("{}{}.", place, name.tensor);
  const bool norm = name.layer.ends_with("norm") || name.layer.ends_with("norm_behind");
  WeightName weight{.parameter = layer + (norm ? "scale" : "kernel"),
                    .tensors = {tensor + "weight"},
                    .transposed = form.transposed && !norm && !form.convolution};
  weight.start = name.start;
  weight.convolution = form.convolution;
  map.push_back(weight);
  if (form.bias)
    map.push_back(
        {.parameter = layer + "bias", .tensors = {tensor + "bias"}, .start = weight.start});
}

bool same_tensor(const TensorFile& file, const std::string& one, const std::string& other) {
  const Array a = file[one], b = file[other];
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

WeightMap hugging_face_names(const DecoderOptions& options, bool prefixed) {
  if (!is_gpt(options)) return names_below(options, prefixed ? "model." : "");
  require(options.tied_head && !options.head_bias,
          "Hugging Face's GPT-2 has its embedding's table as head, without a bias: leave out the "
          "decoder's {}",
          options.tied_head ? "bias" : "own head");
  require(
      options.key_heads == 0 || options.key_heads == options.heads,
      "Hugging Face's GPT-2 has as many key heads as heads, but the decoder has {} and {}; leave "
      "out its key heads",
      options.key_heads, options.heads);
  return names_below(options, prefixed ? "transformer." : "");
}

void check_hugging_face(const Graph& graph, const TensorFile& file, const DecoderOptions& options) {
  const WeightMap map = names_in(file, options);
  check_weights(graph, file, map);
  check_head(file, map[0].tensors[0], options);
}

void load_hugging_face(TrainState& state, const TensorFile& file, const DecoderOptions& options) {
  const WeightMap map = names_in(file, options);
  check_head(file, map[0].tensors[0], options);
  load_weights(state, file, map);
}

std::vector<Quantized> stored_quantization(const TensorFile& file, const DecoderOptions& options) {
  std::vector<Quantized> layers;
  constexpr std::string_view kKernel = ".kernel";
  for (const WeightName& weight : names_in(file, options)) {
    const auto blocks = file.blocks_type(weight.tensors[0]);
    if (!blocks || !weight.parameter.ends_with(kKernel)) continue;
    layers.push_back({weight.parameter.substr(0, weight.parameter.size() - kKernel.size()),
                      static_cast<Quantization>(kernels::quantization(blocks->shape[2]))});
  }
  require(!layers.empty(), "{}: has no kernels in blocks of Q8_0, Q4_0 or Q4_1", file.path());
  return layers;
}

void save_hugging_face(const TrainState& state, const std::string& path,
                       const DecoderOptions& options) {
  save_weights(state, path, hugging_face_names(options), {{"format", "pt"}});
}

}  // namespace alpa::models
