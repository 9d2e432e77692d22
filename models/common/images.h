#pragma once
/// Flags and tasks of programs that classify images.
#include <functional>
#include <string>
#include <vector>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

/// The rows of models of images; `sizes`: the values of --model.
std::vector<cli::Flag> rows_of_images(Flags& flags, const std::vector<std::string>& sizes);

/// 32 rows and columns of an image if the model is for `small` ones, else 224; unless given.
void publish_image(Flags& flags, bool small);

/// Mean cross-entropy and accuracy of images [B, H, W, C] with labels i32 [B].
alpa::LossAndMetrics classify_images(const alpa::nn::Layer& network, alpa::Value images,
                                     alpa::Value labels);

/// A task on images and labels, with loss and accuracy. `make` makes a network from images
/// [B, H, W, C] to logits [B, classes]; `classes` is the number of made classes.
Task image_task(const Flags& flags, std::int64_t classes,
                const std::function<alpa::nn::Layer(std::int64_t classes)>& make);

}  // namespace programs
