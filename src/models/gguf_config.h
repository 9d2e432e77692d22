#pragma once
/// Configurations of decoders in GGUF's metadata, and in config.json of transformers.
#include "alpa/models/gpt.h"
#include "src/train/gguf_file.h"

namespace alpa::models {

/// The file's model. Throws Error naming file, key and mistake as `decoder_options` does.
DecoderOptions gguf_options(const GgufFile& file);

/// The metadata of a decoder, without a tokenizer, and the frequencies' factors of Llama 3.1's
/// scaling, tensor "rope_freqs.weight"; empty without it. Throws Error naming what GGUF cannot
/// hold.
struct GgufConfig {
  nlohmann::ordered_json metadata;
  std::vector<float> frequency_factors = {};
};
GgufConfig gguf_config(const DecoderOptions& options);

}  // namespace alpa::models
