#pragma once
/// Flags of decoders, and the decoder that they describe.
#include <optional>

#include "alpa/models/peft.h"
#include "alpa/models/pretrained.h"
#include "models/common/language.h"

namespace programs {

/// The rows of GPT and Llama.
std::vector<cli::Flag> rows_of_decoder(Flags& flags);

/// Reads the folder or GGUF file of --load into `pretrained`, and gives flags that depend on it
/// their values; of another file nothing is read. Throws Error if a flag was given that the folder
/// decides.
void read_folder(Flags& flags);

/// The weights of --load.
alpa::TensorFile weights_of(const Flags& flags);

/// The decoder of the flags. With --load and --head auto, its head is that of the file.
alpa::models::DecoderOptions options_of(const Flags& flags);

/// The adapters that --lora or --adapter ask for, and the kernels beside them. Throws Error if the
/// folder of --adapter holds no adapters of the decoder, if the file has no blocks that --quantize
/// could take, or if a flag has no effect without these.
struct Adapters {
  std::optional<alpa::Lora> lora = {};
  std::optional<alpa::models::PeftAdapters> loaded = {};  ///< those of --adapter
  std::vector<alpa::Quantized> quantized = {};            ///< the layers that --quantize keeps so
};
Adapters adapters_of(const Flags& flags, const alpa::models::DecoderOptions& options);

}  // namespace programs
