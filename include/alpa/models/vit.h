#pragma once
/// ViT (Dosovitskiy et al. 2021): an encoder of patches of an image.
#include <array>
#include <string_view>

#include "alpa/models/encoder.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Sizes of ViT.
struct VitOptions {
  EncoderOptions encoder;       ///< with `norm_first` true
  std::int64_t patch = 16;      ///< rows and columns of a patch
  std::int64_t classes = 1000;  ///< number of labels
  std::int64_t image = 0;       ///< rows and columns of images; 0: any that the patch divides
};

/// A published size, by its name.
struct VitSize {
  std::string_view name;                      ///< as the paper calls it
  std::int64_t patch, layers, hidden, heads;  ///< rows of a patch, blocks, width, heads
};
/// The sizes of the paper, and one for small images.
inline constexpr std::array<VitSize, 4> kVitSizes{{{"tiny", 4, 4, 64, 4},
                                                   {"base", 16, 12, 768, 12},
                                                   {"large", 16, 24, 1024, 16},
                                                   {"huge", 14, 32, 1280, 16}}};

/// Patches of an image and a class token, an encoder, and a head that reads the class token.
class Vit {
 public:
  /// A model of these sizes.
  explicit Vit(const VitOptions& o)
      : options_(o),
        patches_(o.encoder.hidden, {o.patch, o.patch},
                 {.stride = {o.patch, o.patch}, .name = "patches"}),
        encoder_(o.encoder),
        norm_(encoder_norm(o.encoder, "norm")),
        dropout_(o.encoder.dropout),
        head_(o.classes, {.kernel = Initializer::zeros(), .name = "head"}) {}

  /// Images [B, H, W, channels] → logits [B, classes]. Throws Error unless the patch divides H and
  /// W, and these are `image`, if it is given.
  Value operator()(Value images) const {
    require(images.rank() == 4 && images.dim(1) % options_.patch == 0 &&
                images.dim(2) % options_.patch == 0,
            "Vit: patches of {} rows and columns do not divide images {}", options_.patch,
            to_string(images.type()));
    require(
        options_.image == 0 || (images.dim(1) == options_.image && images.dim(2) == options_.image),
        "Vit: has positions of images of {} rows and columns, but images are {}", options_.image,
        to_string(images.type()));
    const Value seen = norm_(encoder_(dropout_(embed(patches_(images)))));
    return head_(reshape(slice(seen, 1, 0, 1), {seen.dim(0), seen.dim(2)}));
  }

 private:
  /// Patches [B, rows, columns, C] → the class token and the patches, at their positions.
  Value embed(Value patches) const {
    const std::int64_t batch = patches.dim(0), count = patches.dim(1) * patches.dim(2),
                       width = patches.dim(3);
    const nn::Scope in(patches, id_, "vit_embedding");
    const Value token = in.parameter("class_token", {1, 1, width}, zeros);
    const Value x = concatenate(
        {broadcast_to(token, {batch, 1, width}), reshape(patches, {batch, count, width})}, 1);
    return x + in.parameter("positions", {1, count + 1, width}, Initializer::normal(0, 0.02));
  }

  VitOptions options_;
  nn::Conv2d patches_;
  Encoder encoder_;
  nn::LayerNorm norm_;
  nn::Dropout dropout_;
  nn::Dense head_;
  nn::LayerId id_{"embedding"};
};

}  // namespace alpa::models
#pragma GCC visibility pop
