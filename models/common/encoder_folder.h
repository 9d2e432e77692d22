#pragma once
/// Folders of encoders in the programs that train them.
#include <functional>
#include <string>
#include <vector>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

/// --load, --save-folder, --examples and --logits; `inputs`: tensors of --examples, in words.
std::vector<cli::Flag> folder_rows(Flags& flags, const std::string& inputs);

/// The `inputs` of models of images.
inline constexpr const char* kImages = "images [B, H, W, channels]";

/// Reads the folder of --load, if there is one, into `encoder`. Without --data and --steps nothing
/// is trained then. Throws Error if one of the flags that it decides was given.
void read_encoder(Flags& flags, const std::vector<const char*>& decided);

/// The options of that folder's model; nullptr without one. Throws Error if it is another model.
template <class Options>
const Options* folder_options(const Flags& flags) {
  if (!flags.encoder) return nullptr;
  const Options* const options = std::get_if<Options>(&flags.encoder->model);
  alpa::require(options,
                "--load {}: holds another model; alpa-bert loads folders of BERT, alpa-vit of ViT, "
                "alpa-wide-resnet of ResNet",
                alpa::excerpt(flags.load));
  return options;
}

/// A model's logits of examples.
struct Predictor {
  std::vector<std::string> inputs;  ///< names of tensors; all but the first may be absent
  std::function<alpa::Value(const std::vector<alpa::Value>& inputs)> logits;
};

/// That of images [B, H, W, channels].
Predictor image_predictor(const Flags& flags, alpa::nn::Layer network);

/// Trains the task, which starts with the weights of --load; then writes --save-folder, and
/// --logits of --examples. If only logits are asked for, they are computed on one CPU device.
void train_encoder(const Flags& flags, const std::function<Task()>& make_task,
                   const Predictor& predictor);

}  // namespace programs
