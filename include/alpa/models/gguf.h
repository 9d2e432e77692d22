#pragma once
/// Decoders in GGUF files (github.com/ggml-org/ggml, docs/gguf.md), which llama.cpp runs: weights,
/// configuration and tokenizer in one file. `read_pretrained`, `TensorFile` and
/// `Tokenizer::of_folder` take such a file; quantised weights become f32.
#include "alpa/models/pretrained.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Element type of matrices in a file that is written; vectors stay f32.
enum class GgufType : std::uint8_t {
  f32,   ///< single precision
  f16,   ///< half precision
  q8_0,  ///< 8 bits, and a scale per 32 elements of a row; f16 where these do not divide it
};

/// Writes the weights of the state as one file, with the options of `model.decoder` and the
/// tokenizer of the folder or GGUF file that the model was read from, if it was. Throws Error as
/// `check_save_gguf` does, if the state lacks a parameter, or if the file can't be written.
void save_gguf(const TrainState& state, const std::string& path, const Pretrained& model,
               GgufType type = GgufType::f16);

/// Throws Error if GGUF can't hold the decoder or its tokenizer, or if the file is the one that the
/// model was read from, before anything is trained.
void check_save_gguf(const std::string& path, const Pretrained& model);

}  // namespace alpa::models
#pragma GCC visibility pop
