#pragma once
/// Wide-ResNet (Zagoruyko & Komodakis 2016) as in Alpa's evaluation: bottleneck blocks (He et al.
/// 2015) whose 3 x 3 convolution has `width` times as many features. Layers are only recorded, so
/// the graph of any size costs no memory.
#include <map>
#include <string>
#include <vector>

#include "alpa/alpa.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Sizes of a network.
struct WideResNetSize {
  std::vector<int> blocks = {3, 4, 6, 3};  ///< blocks of every group; these: 50 layers
  std::int64_t channels = 160;             ///< of the first group; doubled from group to group
  std::int64_t width = 2;       ///< features of 3 x 3 convolutions, as a multiple of `channels`
  std::int64_t classes = 1024;  ///< number of labels
  bool small_images = false;    ///< a 3 x 3 stem that keeps the extents, for 28 to 64 pixels
  bool pooled_stem = true;      ///< halves the extents behind the stem
  bool remat = false;           ///< blocks are layers for `StepOptions::remat`
};

/// Alpa's sizes (images of 224 pixels), and three for images of 28 to 64.
inline const std::map<std::string, WideResNetSize>& wide_resnet_sizes() {
  static const std::vector<int> deep = {3, 4, 23, 3};  // 101 layers
  static const std::map<std::string, WideResNetSize> sizes{
      {"cifar", {{2, 2, 2}, 16, 4, 10, true, false}},
      {"small", {{1, 1, 1}, 16, 2, 10, true}},
      {"tiny", {{1, 1}, 4, 2, 10, true, false}},
      {"250M", {.channels = 160}},
      {"500M", {.channels = 224}},
      {"1B", {.channels = 320}},
      {"2B", {.channels = 448}},
      {"4B", {.channels = 640}},
      {"6.8B", {.channels = 320, .width = 16}},
      {"13B", {.blocks = deep, .channels = 320, .width = 16}}};
  return sizes;
}

/// Convolution without bias and batch normalisation.
class ConvNorm {
 public:
  /// `features` of a window of `window` x `window`; `scale`: initial scale of the norm.
  ConvNorm(std::int64_t features, std::int64_t window, std::int64_t stride = 1,
           Initializer scale = ones)
      : conv_(features, {window, window},
              {.stride = {stride, stride}, .bias = false, .name = "conv"}),
        norm_({.scale = scale, .name = "norm"}) {}
  /// x [B, H, W, C] → [B, H / stride, W / stride, features].
  Value operator()(Value x) const { return norm_(conv_(x)); }

 private:
  nn::Conv2d conv_;
  nn::BatchNorm norm_;
};

/// relu(shortcut(x) + branch(x)): 1 x 1 to `channels`, 3 x 3 to `width` times these, 1 x 1 to four
/// times these. The shortcut is a projection if the shape changes.
class BottleneckBlock {
 public:
  /// A block of `channels`, see above; `stride` is that of the 3 x 3 convolution.
  BottleneckBlock(std::int64_t channels, std::int64_t width, std::int64_t stride)
      : reduce_("reduce", ConvNorm(channels, 1)),
        middle_("middle", ConvNorm(channels * width, 3, stride)),
        expand_("expand", ConvNorm(channels * 4, 1, 1, zeros)),
        project_("project", ConvNorm(channels * 4, 1, stride)) {}

  /// x [B, H, W, C] → [B, H / stride, W / stride, 4·channels].
  Value operator()(Value x) const {
    const Value narrow = relu(reduce_(x));
    const Value branch = expand_(relu(middle_(narrow)));
    return relu((branch.shape() == x.shape() ? x : project_(x)) + branch);
  }

 private:
  nn::Layer reduce_, middle_, expand_, project_;
};

/// Images [B, H, W, 3] (any channels) → logits [B, classes]. A pipeline may be cut before every
/// block. Parameters: "stem.conv.kernel", "groups.1.blocks.0.middle.norm.scale", "head.bias".
inline nn::Sequential wide_resnet(const WideResNetSize& size) {
  nn::Sequential model;
  model.add(
      {"stem", ConvNorm(size.channels, size.small_images ? 3 : 7, size.small_images ? 1 : 2)});
  model.add(nn::ReLU());
  if (size.pooled_stem) model.add(nn::MaxPool{{3, 3}, {2, 2}, nn::Padding::same});
  std::int64_t channels = size.channels;
  for (std::size_t group = 0; group < size.blocks.size(); ++group, channels *= 2)
    for (int i = 0; i < size.blocks[group]; ++i) {
      const BottleneckBlock block(channels, size.width, group > 0 && i == 0 ? 2 : 1);
      model.add(mark_pipeline_boundary);
      const std::string name = fmt::format("groups.{}.blocks.{}", group, i);
      model.add(size.remat ? nn::Layer(name, nn::remat(block)) : nn::Layer(name, block));
    }
  return model.add(nn::GlobalAveragePool()).add(nn::Dense(size.classes, {.name = "head"}));
}

}  // namespace alpa::models
#pragma GCC visibility pop
