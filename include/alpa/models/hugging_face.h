#pragma once
/// Weights of decoders under the names of Hugging Face's transformers: GPT2LMHeadModel,
/// LlamaForCausalLM and the families that vary it (`DecoderVariant`).
#include "alpa/models/gpt.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// The map to transformers' names, "transformer.h.0.attn.c_attn.weight" or
/// "model.layers.0.self_attn.q_proj.weight". `prefixed`: with "transformer." or "model.", as these
/// classes write them; without, as older files have them. Throws Error if the decoder has a bias at
/// its head, or GPT's a head of its own or key heads, which transformers' lack.
WeightMap hugging_face_names(const DecoderOptions& options, bool prefixed = true);

/// Loads the weights of a file, with the prefix or without. Throws Error, naming the tensor, if one
/// is missing or does not fit, if the file has more layers than the decoder, or if its head is not
/// the table of its embedding although the decoder's is; the state is then unchanged.
void load_hugging_face(TrainState& state, const TensorFile& file, const DecoderOptions& options);

/// Throws Error as `load_hugging_face` would into a state of this graph, before it is planned.
void check_hugging_face(const Graph& graph, const TensorFile& file, const DecoderOptions& options);

/// For `StepOptions::quantized`: the Dense layers whose kernels a GGUF file has in Q8_0, Q4_0 or
/// Q4_1, each with its type. Throws Error if it has none.
std::vector<Quantized> stored_quantization(const TensorFile& file, const DecoderOptions& options);

/// Writes the weights to a safetensors file as transformers' `save_pretrained` does. Throws Error
/// as `hugging_face_names` and `save_weights` do.
void save_hugging_face(const TrainState& state, const std::string& path,
                       const DecoderOptions& options);

}  // namespace alpa::models
#pragma GCC visibility pop
