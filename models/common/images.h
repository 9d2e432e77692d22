#pragma once
/// Flags and tasks of programs that classify images.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

struct ImageFlags : CommonFlags {
  std::string model, dtype = "f32", data = "made";
  std::int64_t image = 32;  ///< rows and columns of made images

  explicit ImageFlags(std::string size) : model(std::move(size)) { batch = 32; }
};

/// The rows of `flags`; `sizes`: the values of --model.
std::vector<cli::Flag> rows_of_images(ImageFlags& flags, const std::vector<std::string>& sizes);

/// Mean cross-entropy and accuracy of images [B, H, W, C] with labels i32 [B].
alpa::LossAndMetrics classify_images(const alpa::nn::Layer& network, alpa::Value images,
                                     alpa::Value labels);

/// A task on images and labels, with loss and accuracy. `make` makes a network from images
/// [B, H, W, C] to logits [B, classes]; `classes` is the number of made classes.
Task image_task(const ImageFlags& flags, std::int64_t classes,
                const std::function<alpa::nn::Layer(std::int64_t classes)>& make);

}  // namespace programs
