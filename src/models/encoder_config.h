#pragma once
/// The encoders of config.json files as transformers writes them.
#include "alpa/models/pretrained_encoder.h"
#include "src/models/json_object.h"

namespace alpa::models {

/// Sizes and variants of the model. Throws Error at the first member that it does not compute.
EncoderModel encoder_model(const JsonObject& config);

}  // namespace alpa::models
