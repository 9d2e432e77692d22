#pragma once
/// Adapters of decoders as Hugging Face's PEFT keeps them: a folder with adapter_config.json and
/// adapter_model.safetensors.
#include "alpa/models/gpt.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// A folder's adapters.
struct PeftAdapters {
  std::string weights;  ///< path of adapter_model.safetensors
  Lora lora = {};       ///< for `StepOptions::lora`; its targets are the layers that have adapters
};

/// Reads adapter_config.json, and which layers of the decoder have adapters. Throws Error naming
/// file, place and mistake: also where the folder holds what `Lora` does not compute, or tensors of
/// other models.
PeftAdapters read_peft(const std::string& folder, const DecoderOptions& options);

/// Loads the adapters into a state of a step with `adapters.lora`. Throws Error, naming the tensor,
/// if one does not fit; the state is then unchanged.
void load_peft(TrainState& state, const PeftAdapters& adapters, const DecoderOptions& options);

/// Throws Error as `save_peft` would for layers that share a tensor, before anything is trained.
void check_peft(const DecoderOptions& options, const Lora& lora);

/// Writes the state's adapters as PEFT's `save_pretrained` does, for the model that
/// `save_hugging_face` writes. `base`: name or folder of that model, for whoever reads it. Throws
/// Error if the state has none, if an adapted layer shares a tensor with others in transformers'
/// model (GPT-2's and Phi-3's queries), or if a file can't be written.
void save_peft(const TrainState& state, const std::string& folder, const DecoderOptions& options,
               const Lora& lora, const std::string& base = "");

}  // namespace alpa::models
#pragma GCC visibility pop
