// models/common/hugging_face.cc — decoders' weights under the names of Hugging Face's transformers
#include "models/common/hugging_face.h"

namespace models {

using namespace alpa;

namespace {

/// "dense3.kernel".
std::string parameter(const char* layer, std::int64_t number, const char* name) {
  return fmt::format("{}{}.{}", layer, number, name);
}

/// GPT-2's Conv1D, [in, out] as here, and layer norms.
void add_gpt2_norm(WeightMap& map, std::int64_t number, const std::string& name) {
  map.push_back({parameter("layer_norm", number, "scale"), {name + ".weight"}});
  map.push_back({parameter("layer_norm", number, "bias"), {name + ".bias"}});
}

/// `start`: where queries, keys or values begin in c_attn.
void add_gpt2_product(WeightMap& map, std::int64_t number, const std::string& name,
                      std::optional<std::int64_t> start = {}) {
  map.push_back({.parameter = parameter("dense", number, "kernel"),
                 .tensors = {name + ".weight"},
                 .start = start});
  map.push_back({.parameter = parameter("dense", number, "bias"),
                 .tensors = {name + ".bias"},
                 .start = start});
}

WeightMap gpt2_names(const DecoderOptions& o, const std::string& prefix) {
  WeightMap map{{"embedding0.table", {prefix + "wte.weight"}},
                {"embedding1.table", {prefix + "wpe.weight"}}};
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string block = fmt::format("{}h.{}.", prefix, i);
    add_gpt2_norm(map, 2 * i, block + "ln_1");
    for (std::int64_t part = 0; part < 3; ++part)
      add_gpt2_product(map, 6 * i + part, block + "attn.c_attn", part * o.hidden);
    add_gpt2_product(map, 6 * i + 3, block + "attn.c_proj");
    add_gpt2_norm(map, 2 * i + 1, block + "ln_2");
    add_gpt2_product(map, 6 * i + 4, block + "mlp.c_fc");
    add_gpt2_product(map, 6 * i + 5, block + "mlp.c_proj");
  }
  add_gpt2_norm(map, 2 * o.layers, prefix + "ln_f");
  return map;
}

/// Products of a Llama's block in the order of their numbers. Its rotary positions turn halves, as
/// here: rows are not exchanged.
constexpr const char* kLlamaProducts[] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

WeightMap llama_names(const DecoderOptions& o, const std::string& prefix) {
  WeightMap map{{"embedding0.table", {prefix + "embed_tokens.weight"}}};
  std::int64_t norm = 0, dense = 0;
  const auto add_norm = [&](const std::string& name) {
    map.push_back({parameter("rms_norm", norm++, "scale"), {name + ".weight"}});
  };
  const auto add_product = [&](const std::string& name) {
    map.push_back({parameter("dense", dense++, "kernel"), {name + ".weight"}, true});
  };
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string block = fmt::format("{}layers.{}.", prefix, i);
    add_norm(block + "input_layernorm");
    add_norm(block + "post_attention_layernorm");
    for (const char* product : kLlamaProducts) add_product(block + product);
  }
  add_norm(prefix + "norm");
  if (!o.tied_head) add_product("lm_head");
  return map;
}

bool is_gpt(const DecoderOptions& options) { return options.kind == DecoderKind::gpt; }

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
  require(head.type() == tokens.type() && head.to_doubles() == tokens.to_doubles(),
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
  if (!is_gpt(options)) return llama_names(options, prefixed ? "model." : "");
  require(options.tied_head && !options.head_bias,
          "Hugging Face's GPT-2 has its embedding's table as head, without a bias: leave out the "
          "decoder's {}",
          options.tied_head ? "bias" : "own head");
  require(
      options.key_heads == 0 || options.key_heads == options.heads,
      "Hugging Face's GPT-2 has as many key heads as heads, but the decoder has {} and {}; leave "
      "out its key heads",
      options.key_heads, options.heads);
  return gpt2_names(options, prefixed ? "transformer." : "");
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

}  // namespace models
