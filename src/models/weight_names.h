#pragma once
/// Tables of layers and their tensors in files of transformers, for decoders and encoders.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/weights.h"

namespace alpa::models {

/// A layer of a model and its tensors in the file, both below a block or below the model.
struct LayerName {
  std::string_view layer, tensor;
  std::optional<std::int64_t> start = {};  ///< in a tensor that several layers share
};
using LayerNames = std::vector<LayerName>;

/// How the file holds a layer.
struct LayerForm {
  bool transposed = true;    ///< kernels of products are [out, in]; norms are never transposed
  bool bias = true;          ///< there is one
  bool convolution = false;  ///< the kernel is that of a convolution
};

/// Adds the parameters of a layer, below `scope` in the model and below `place` in the file. Those
/// of layers called "norm", "head_norm" or "norm_behind" are scales.
void add_layer(WeightMap& map, const LayerName& name, const LayerForm& form = {},
               const std::string& scope = "", const std::string& place = "");

/// True if two tensors of the file hold the same bits.
bool same_tensor(const TensorFile& file, const std::string& one, const std::string& other);

}  // namespace alpa::models
