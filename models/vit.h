#pragma once
/// ViT (Dosovitskiy et al. 2021): an encoder of patches of an image.
#include <array>
#include <string_view>

#include "models/encoder.h"

namespace models {

struct VitOptions {
  EncoderOptions encoder;
  std::int64_t patch = 16;  ///< rows and columns of a patch
  std::int64_t classes = 1000;
};

struct VitSize {
  std::string_view name;
  std::int64_t patch, layers, hidden, heads;
};
/// The sizes of the paper, and one for small images.
inline constexpr std::array<VitSize, 4> kVitSizes{{{"tiny", 4, 4, 64, 4},
                                                   {"base", 16, 12, 768, 12},
                                                   {"large", 16, 24, 1024, 16},
                                                   {"huge", 14, 32, 1280, 16}}};

class Vit {
 public:
  explicit Vit(const VitOptions& o)
      : options_(o),
        patches_(o.encoder.hidden, {o.patch, o.patch},
                 {.stride = {o.patch, o.patch}, .name = "patches"}),
        encoder_(o.encoder),
        dropout_(o.encoder.dropout),
        head_(o.classes, {.kernel = alpa::Initializer::zeros(), .name = "head"}) {}

  /// Images [B, H, W, C] → logits [B, classes]. The patch divides H and W.
  alpa::Value operator()(alpa::Value images) const {
    const std::int64_t batch = images.dim(0), width = options_.encoder.hidden;
    alpa::require(images.rank() == 4 && images.dim(1) % options_.patch == 0 &&
                      images.dim(2) % options_.patch == 0,
                  "Vit: patches of {} rows and columns do not divide images {}", options_.patch,
                  alpa::to_string(images.type()));
    const alpa::Value patches = patches_(images);
    const std::int64_t count = patches.dim(1) * patches.dim(2);
    const alpa::nn::Scope in(patches, id_, "vit_embedding");
    const alpa::Value token = in.parameter("class_token", {1, 1, width}, alpa::zeros);
    const alpa::Value x = alpa::concatenate({alpa::broadcast_to(token, {batch, 1, width}),
                                             alpa::reshape(patches, {batch, count, width})},
                                            1);
    const alpa::Value positions =
        in.parameter("positions", {1, count + 1, width}, alpa::Initializer::normal(0, 0.02));
    const alpa::Value seen = norm_(encoder_(dropout_(x + positions)));
    return head_(alpa::reshape(alpa::slice(seen, 1, 0, 1), {batch, width}));
  }

 private:
  VitOptions options_;
  alpa::nn::Conv2d patches_;
  Encoder encoder_;
  alpa::nn::LayerNorm norm_{{.name = "norm"}};
  alpa::nn::Dropout dropout_;
  alpa::nn::Dense head_;
  alpa::nn::LayerId id_{"embedding"};
};

}  // namespace models
