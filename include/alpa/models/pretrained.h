#pragma once
/// A decoder's folder as `save_pretrained` of Hugging Face's transformers writes it: that of GPT-2,
/// Llama 1 to 3, Mistral, Mixtral, Qwen2, Qwen3 (with experts, too), Gemma 1 to 3, or Phi-3. Or a
/// GGUF file of one of these (alpa/models/gguf.h).
#include "alpa/models/gpt.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// A folder's configuration. Its weights are read by `load_hugging_face`, its tokenizer by
/// `alpa::Tokenizer::of_folder`.
struct Pretrained {
  std::string folder;           ///< its path, or that of the GGUF file
  std::string weights;          ///< model.safetensors, or the index of several files, or GGUF
  DecoderOptions decoder = {};  ///< `sequence`: as many positions as the model knows
  std::vector<std::int32_t> stop_tokens;  ///< tokens that end a text
};

/// Reads config.json, and generation_config.json if there is one, or a GGUF file's metadata. Throws
/// Error naming file, place and mistake, also where a model computes what `Decoder` does not.
Pretrained read_pretrained(const std::string& folder);

/// Writes a folder that transformers opens: the weights of the state, and the configuration and
/// tokenizer of the folder that the model was read from. Throws Error as `save_hugging_face`, or if
/// a file can't be written.
void save_pretrained(const TrainState& state, const std::string& folder, const Pretrained& model);

/// Throws Error if the folder is the one that the model was read from, or if that is a GGUF file,
/// before anything is trained.
void check_save_pretrained(const std::string& folder, const Pretrained& model);

/// Reads a config.json alone, to plan a model without its weights. Throws Error as
/// `read_pretrained` does.
DecoderOptions read_decoder_options(const std::string& path);

}  // namespace alpa::models
#pragma GCC visibility pop
