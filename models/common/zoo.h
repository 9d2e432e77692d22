#pragma once
/// The models of the programs by name and size, for planning alone.
#include <optional>
#include <string>
#include <vector>

#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

/// A model and its sizes, the smallest first.
struct ZooModel {
  std::string name;
  std::vector<std::string> sizes;
};

/// All of them: gpt, llama, moe, bert, vit, wide-resnet, mlp.
std::vector<ZooModel> zoo_models();

/// Which of them, and the extents of its data. Absent ones are those of the papers.
struct ZooRequest {
  std::string model, size;
  std::optional<std::int64_t> sequence = {}, vocabulary = {};  ///< of language models
  std::optional<std::int64_t> image = {};                      ///< rows and columns of an image
};

/// The task of a model for the batch and the rematerialisation of `flags`, without data. Throws
/// Error that lists the models, or the sizes, if there is none of this name; and for an extent
/// that the model does not have.
Task zoo_task(const ZooRequest& request, const CommonFlags& flags);

}  // namespace programs
