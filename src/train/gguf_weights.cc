// src/train/gguf_weights.cc — decoders' weights from GGUF's names and layouts, and to them
#include "src/train/gguf_weights.h"

#include <cstring>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "kernels/plan/quantized_block.h"

namespace alpa {
namespace {

/// A tensor of the model, or of a block, without "blk.0." and "model.layers.0.".
struct Row {
  const char* architectures;  ///< between spaces; "": those that no row above names
  const char *gguf, *hugging_face;
  GgufLayout layout = GgufLayout::plain;
  bool of_block = true;
};

constexpr const char* kGemmas = " gemma gemma2 gemma3 ";
constexpr const char* kLaterGemmas = " gemma2 gemma3 ";
constexpr const char *kGpt2 = " gpt2 ", *kLlama = " llama ", *kMoe = " qwen3moe ";

/// Of rows with one name, the first that names the architecture or none.
constexpr Row kRows[] = {
    {kGpt2, "token_embd", "wte", GgufLayout::plain, false},
    {kGpt2, "position_embd", "wpe", GgufLayout::plain, false},
    {kGpt2, "output_norm", "ln_f", GgufLayout::plain, false},
    {kGpt2, "attn_norm", "ln_1"},
    {kGpt2, "attn_qkv", "attn.c_attn", GgufLayout::transposed},
    {kGpt2, "attn_output", "attn.c_proj", GgufLayout::transposed},
    {kGpt2, "ffn_norm", "ln_2"},
    {kGpt2, "ffn_up", "mlp.c_fc", GgufLayout::transposed},
    {kGpt2, "ffn_down", "mlp.c_proj", GgufLayout::transposed},
    {kGemmas, "output_norm", "norm", GgufLayout::from_one, false},
    {kGemmas, "attn_norm", "input_layernorm", GgufLayout::from_one},
    {kLaterGemmas, "post_attention_norm", "post_attention_layernorm", GgufLayout::from_one},
    {kLaterGemmas, "ffn_norm", "pre_feedforward_layernorm", GgufLayout::from_one},
    {kLaterGemmas, "post_ffw_norm", "post_feedforward_layernorm", GgufLayout::from_one},
    {kGemmas, "ffn_norm", "post_attention_layernorm", GgufLayout::from_one},
    {kGemmas, "attn_q_norm", "self_attn.q_norm", GgufLayout::from_one},
    {kGemmas, "attn_k_norm", "self_attn.k_norm", GgufLayout::from_one},
    {kLlama, "attn_q", "self_attn.q_proj", GgufLayout::queries},
    {kLlama, "attn_k", "self_attn.k_proj", GgufLayout::keys},
    {kLlama, "ffn_gate_inp", "block_sparse_moe.gate"},
    {kLlama, "ffn_gate_exps", "block_sparse_moe.experts.*.w1", GgufLayout::experts},
    {kLlama, "ffn_up_exps", "block_sparse_moe.experts.*.w3", GgufLayout::experts},
    {kLlama, "ffn_down_exps", "block_sparse_moe.experts.*.w2", GgufLayout::experts},
    {kMoe, "ffn_gate_inp", "mlp.gate"},
    {kMoe, "ffn_gate_exps", "mlp.experts.*.gate_proj", GgufLayout::experts},
    {kMoe, "ffn_up_exps", "mlp.experts.*.up_proj", GgufLayout::experts},
    {kMoe, "ffn_down_exps", "mlp.experts.*.down_proj", GgufLayout::experts},
    {" phi3 ", "attn_qkv", "self_attn.qkv_proj"},
    {" phi3 ", "ffn_up", "mlp.gate_up_proj"},
    {"", "token_embd", "embed_tokens", GgufLayout::plain, false},
    {"", "output_norm", "norm", GgufLayout::plain, false},
    {"", "attn_norm", "input_layernorm"},
    {"", "attn_q", "self_attn.q_proj"},
    {"", "attn_k", "self_attn.k_proj"},
    {"", "attn_v", "self_attn.v_proj"},
    {"", "attn_output", "self_attn.o_proj"},
    {"", "attn_q_norm", "self_attn.q_norm"},
    {"", "attn_k_norm", "self_attn.k_norm"},
    {"", "ffn_norm", "post_attention_layernorm"},
    {"", "ffn_gate", "mlp.gate_proj"},
    {"", "ffn_up", "mlp.up_proj"},
    {"", "ffn_down", "mlp.down_proj"}};

constexpr const char* kArchitectures = " gpt2 llama qwen2 qwen3 qwen3moe gemma gemma2 gemma3 phi3 ";

bool names(const char* architectures, const std::string& architecture) {
  return std::string(architectures).find(" " + architecture + " ") != std::string::npos;
}

/// A tensor's name in parts: "blk.", "0", "attn_q", ".weight"; of the model without block.
struct Name {
  std::string block;  ///< its number; "": of the model
  std::string tensor;
  std::string ending;
};

/// Takes a name apart that begins with `blocks` if it is of a block, else with `model`.
Name parts_of(std::string name, const std::string& blocks, const std::string& model) {
  Name parts;
  if (name.starts_with(blocks)) {
    const std::size_t dot = name.find('.', blocks.size());
    if (dot != std::string::npos) {
      parts.block = name.substr(blocks.size(), dot - blocks.size());
      name.erase(0, dot + 1);
    }
  } else if (name.starts_with(model)) {
    name.erase(0, model.size());
  }
  const std::size_t dot = name.rfind('.');
  parts.tensor = name.substr(0, dot);
  if (dot != std::string::npos) parts.ending = name.substr(dot);
  return parts;
}

/// The row of a tensor whose name is that of `column`, or null.
const Row* row_of(const std::string& architecture, const Name& name, const char* Row::*column) {
  for (const Row& row : kRows)
    if (name.tensor == row.*column && row.of_block == !name.block.empty() &&
        (row.architectures[0] == '\0' || names(row.architectures, architecture)))
      return &row;
  return nullptr;
}

std::string model_place(const std::string& architecture) {
  return names(kGpt2, architecture) ? "transformer." : "model.";
}
std::string blocks_place(const std::string& architecture) {
  return model_place(architecture) + (names(kGpt2, architecture) ? "h." : "layers.");
}

/// The rows of every head in the other order: D/2 pairs of neighbours, or two halves.
Array reordered(const Array& x, std::int64_t heads, bool to_pairs) {
  Array y(x.type());
  const std::int64_t rows = x.shape()[0], width = rows / heads;
  const auto bytes = static_cast<std::size_t>(x.bytes() / rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t in_head = i % width;
    const std::int64_t pair = i - in_head + in_head % (width / 2) * 2 + in_head / (width / 2);
    std::memcpy(y.mutable_data() + bytes * static_cast<std::size_t>(to_pairs ? pair : i),
                x.data() + bytes * static_cast<std::size_t>(to_pairs ? i : pair), bytes);
  }
  return y;
}

Array transposed(const Array& x) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  Array y(TensorType{x.dtype(), {columns, rows}});
  const std::size_t size = size_of(x.dtype());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      std::memcpy(y.mutable_data() + size * static_cast<std::size_t>(j * rows + i),
                  x.data() + size * static_cast<std::size_t>(i * columns + j), size);
  return y;
}

/// The tensor in the layout of GGUF, or from it. `heads`: those of its rows.
Array laid_out(const Array& x, GgufLayout layout, std::int64_t heads, bool to_gguf) {
  if (layout == GgufLayout::queries || layout == GgufLayout::keys)
    return reordered(x, heads, to_gguf);
  if (layout == GgufLayout::transposed && !to_gguf && x.shape().size() == 2) return transposed(x);
  if (layout != GgufLayout::from_one) return x;
  Array y = x.cast(f32);
  for (float& element : y.mutable_elements_as<float>()) element += to_gguf ? 1.0F : -1.0F;
  return y;
}

std::int64_t heads_of(const GgufModel& model, GgufLayout layout) {
  return layout == GgufLayout::keys ? model.key_heads : model.heads;
}

std::int64_t number_or(const GgufFile& file, const std::string& key, std::int64_t otherwise) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end() || !found->is_number_unsigned()) return otherwise;
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(found->get<std::uint64_t>(), std::uint64_t{1} << 32));
}

GgufModel model_of(const GgufFile& file) {
  GgufModel model;
  const auto found = file.metadata().find("general.architecture");
  if (found != file.metadata().end() && found->is_string())
    model.architecture = found->get<std::string>();
  const std::string heads = model.architecture + ".attention.head_count";
  model.heads = number_or(file, heads, 1);
  model.key_heads = number_or(file, heads + "_kv", model.heads);
  return model;
}

/// Throws Error unless a tensor has the shape that its layout takes.
void check_shape(const GgufFile& file, const GgufTensor& tensor, GgufLayout layout,
                 const GgufModel& model) {
  const std::size_t rank = tensor.shape.size();
  const bool rows = layout == GgufLayout::queries || layout == GgufLayout::keys;
  const std::int64_t heads = heads_of(model, layout);
  require(
      !rows || (rank > 0 && heads > 0 && tensor.shape[0] > 0 && tensor.shape[0] % (2 * heads) == 0),
      "{}: tensor \"{}\" is {}: its rows are no {} heads of even width, which the metadata "
      "announce",
      file.path(), excerpt(tensor.name), to_string(tensor.shape), heads);
  require(layout != GgufLayout::experts || rank == 3,
          "{}: tensor \"{}\" is {}, but experts are one of three dimensions", file.path(),
          excerpt(tensor.name), to_string(tensor.shape));
}

/// Adds the blocks of a matrix [out, in], if quantised kernels have such.
void add_blocks(const GgufTensor& tensor, GgufLayout layout, std::int64_t heads,
                GgufWeight& weight) {
  const int type = kernels::quantization(tensor.type->bytes);
  if (type < 0 || tensor.shape.size() != 2 || layout == GgufLayout::from_one) return;
  weight.blocks_type = {u8, kernels::quantized_shape(type, tensor.shape[1], tensor.shape[0])};
  if (layout == GgufLayout::transposed) layout = GgufLayout::plain;
  weight.blocks = [=, type = *weight.blocks_type] {
    return laid_out(Array::copy(tensor.data, type), layout, heads, false);
  };
}

/// The tensors of transformers that a tensor of the file is.
void add_weights(const GgufTensor& tensor, const Row& row, const GgufModel& model,
                 const std::string& name, std::vector<GgufWeight>& weights) {
  if (row.layout != GgufLayout::experts) {
    TensorType type{tensor.type->read_as, tensor.shape};
    if (row.layout == GgufLayout::from_one) type.dtype = f32;
    if (row.layout == GgufLayout::transposed && type.rank() == 2)
      std::swap(type.shape[0], type.shape[1]);
    const std::int64_t heads = heads_of(model, row.layout);
    weights.push_back({name, type, [tensor, layout = row.layout, heads] {
                         return laid_out(tensor.read(), layout, heads, false);
                       }});
    add_blocks(tensor, row.layout, heads, weights.back());
    return;
  }
  const std::size_t star = name.find('*');
  GgufTensor expert = tensor;
  expert.shape.erase(expert.shape.begin());
  const std::int64_t blocks = expert.shape[0] * (expert.shape[1] / expert.type->elements);
  for (std::int64_t e = 0; e < tensor.shape[0]; ++e) {
    expert.data = tensor.data + e * blocks * expert.type->bytes;
    weights.push_back({name.substr(0, star) + std::to_string(e) + name.substr(star + 1),
                       {expert.type->read_as, expert.shape},
                       [expert] { return expert.read(); }});
  }
}

}  // namespace

std::vector<GgufWeight> gguf_weights(const GgufFile& file) {
  const GgufModel model = model_of(file);
  const bool known = names(kArchitectures, model.architecture);
  std::vector<GgufWeight> weights;
  for (const GgufTensor& tensor : file.tensors()) {
    const Name name = parts_of(tensor.name, "blk.", "");
    const Row* const row = known ? row_of(model.architecture, name, &Row::gguf) : nullptr;
    if (row == nullptr) {
      const bool head = known && name.block.empty() && name.tensor == "output";
      weights.push_back({head ? "lm_head" + name.ending : tensor.name,
                         {tensor.type->read_as, tensor.shape},
                         [tensor] { return tensor.read(); }});
      add_blocks(tensor, GgufLayout::plain, 1, weights.back());
      continue;
    }
    check_shape(file, tensor, row->layout, model);
    const std::string place = row->of_block ? blocks_place(model.architecture) + name.block + "."
                                            : model_place(model.architecture);
    add_weights(tensor, *row, model, place + row->hugging_face + name.ending, weights);
  }
  return weights;
}

GgufTarget gguf_target(const GgufModel& model, const std::string& weight) {
  Name name = parts_of(weight, blocks_place(model.architecture), model_place(model.architecture));
  if (const std::size_t first = name.tensor.find(".0."); first != std::string::npos)
    name.tensor[first + 1] = '*';
  if (weight.starts_with("lm_head.")) return {"output" + name.ending, GgufLayout::plain};
  const Row* const row = row_of(model.architecture, name, &Row::hugging_face);
  if (row == nullptr) bug("GGUF's {} has no \"{}\"", model.architecture, weight);
  const std::string place = row->of_block ? "blk." + name.block + "." : "";
  return {place + row->gguf + name.ending, row->layout};
}

GgufPart gguf_part(const GgufTarget& target, const Array& weight, const GgufModel& model,
                   const GgufElement& type) {
  const Shape& shape = weight.shape();
  const bool exact = shape.size() == 1 || target.name.starts_with("position_embd") ||
                     target.name.find("ffn_gate_inp") != std::string::npos;
  const bool whole = shape.back() % type.elements == 0;
  const GgufElement& as = exact ? *gguf_type("F32") : whole ? type : *gguf_type("F16");
  const Array stored = laid_out(weight, target.layout, heads_of(model, target.layout), true);
  return {target.name, &as, shape, gguf_encoded(stored, as)};
}

}  // namespace alpa
