#pragma once
/// The decoders of config.json files as transformers writes them.
#include "alpa/models/gpt.h"
#include "src/models/json_object.h"

namespace alpa::models {

/// Sizes and variants of the decoder. Throws Error at the first member that `Decoder` does not
/// compute.
DecoderOptions decoder_options(const JsonObject& config);

}  // namespace alpa::models
