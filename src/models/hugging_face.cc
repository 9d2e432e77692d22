// src/models/hugging_face.cc — decoders' weights under the names of Hugging Face's transformers
#include "alpa/models/hugging_face.h"

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace alpa::models {
namespace {

/// A layer of the decoder and its tensors in the file, both below a block or below the model.
struct LayerName {
  std::string_view layer, tensor;
  std::optional<int> part = {};  ///< of a tensor that several layers share
};

/// Kernels of GPT-2's Conv1D are [in, out], as here.
constexpr LayerName kGpt2Block[] = {{"attention_norm", "ln_1"},
                                    {"attention.query", "attn.c_attn", 0},
                                    {"attention.key", "attn.c_attn", 1},
                                    {"attention.value", "attn.c_attn", 2},
                                    {"attention.projection", "attn.c_proj"},
                                    {"feed_forward_norm", "ln_2"},
                                    {"feed_forward.up", "mlp.c_fc"},
                                    {"feed_forward.down", "mlp.c_proj"}};
/// Kernels are [out, in]. Rotary positions turn halves, as here: rows are not exchanged.
constexpr LayerName kLlamaBlock[] = {
    {"attention_norm", "input_layernorm"},   {"feed_forward_norm", "post_attention_layernorm"},
    {"attention.query", "self_attn.q_proj"}, {"attention.key", "self_attn.k_proj"},
    {"attention.value", "self_attn.v_proj"}, {"attention.projection", "self_attn.o_proj"},
    {"feed_forward.gate", "mlp.gate_proj"},  {"feed_forward.up", "mlp.up_proj"},
    {"feed_forward.down", "mlp.down_proj"}};

bool is_gpt(const DecoderOptions& options) { return options.kind == DecoderKind::gpt; }

/// Whether a layer has a bias: all of GPT-2's, and of Llama's as the options say.
bool has_bias(const DecoderOptions& o, std::string_view layer) {
  if (is_gpt(o)) return true;
  if (layer == "attention.projection") return o.projection_bias;
  return o.query_bias && layer.starts_with("attention.");
}

/// Adds the parameters of a layer.
void add_layer(WeightMap& map, const DecoderOptions& o, const LayerName& name,
               const std::string& scope = "", const std::string& place = "") {
  const std::string layer = fmt::format("{}{}.", scope, name.layer);
  const std::string tensor = fmt::format("{}{}.", place, name.tensor);
  const bool norm = name.layer.ends_with("norm");
  WeightName weight{.parameter = layer + (norm ? "scale" : "kernel"),
                    .tensors = {tensor + "weight"},
                    .transposed = !norm && !is_gpt(o)};
  if (name.part) weight.start = *name.part * o.hidden;
  map.push_back(weight);
  if (has_bias(o, name.layer))
    map.push_back(
        {.parameter = layer + "bias", .tensors = {tensor + "bias"}, .start = weight.start});
}

/// `place`: "transformer.", "model." or nothing, before all names of the file except the head's.
WeightMap names_below(const DecoderOptions& o, const std::string& place) {
  const bool gpt = is_gpt(o);
  WeightMap map{{"tokens.table", {place + (gpt ? "wte.weight" : "embed_tokens.weight")}}};
  if (gpt) map.push_back({"positions.table", {place + "wpe.weight"}});
  const std::span<const LayerName> block =
      gpt ? std::span<const LayerName>(kGpt2Block) : std::span<const LayerName>(kLlamaBlock);
  for (std::int64_t i = 0; i < o.layers; ++i)
    for (const LayerName& name : block)
      add_layer(map, o, name, fmt::format("blocks.{}.", i),
                fmt::format("{}{}.{}.", place, gpt ? "h" : "layers", i));
  add_layer(map, o, {"norm", gpt ? "ln_f" : "norm"}, "", place);
  if (!o.tied_head) add_layer(map, o, {"head", "lm_head"});
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
  const Array head = file["lm_head.weight"], tokens = file[table];
  require(
      head.type() == tokens.type() && std::memcmp(head.data(), tokens.data(), head.bytes()) == 0,
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

void save_hugging_face(const TrainState& state, const std::string& path,
                       const DecoderOptions& options) {
  save_weights(state, path, hugging_face_names(options), {{"format", "pt"}});
}

}  // namespace alpa::models
