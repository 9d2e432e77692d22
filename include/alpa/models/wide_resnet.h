#pragma once
/// Wide-ResNet (Zagoruyko & Komodakis 2016) as in Alpa's evaluation: bottleneck blocks (He et al.
/// 2015) whose 3 x 3 convolution has `width` times as many features; also the ResNets that they
/// widen. Layers are only recorded, so the graph of any size costs no memory.
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
  bool basic = false;  ///< blocks are two 3 x 3 convolutions, as those of ResNet-18, of no `width`
  nn::Padding padding = nn::Padding::same;  ///< of convolutions and pool; PyTorch's is symmetric
  bool strided_first = false;               ///< the first group halves the extents, too
  bool strided_reduce = false;  ///< the 1 x 1 convolution ahead has the stride, not the 3 x 3 one
};

/// Features behind the blocks of a group, counted from 0.
inline std::int64_t group_features(const WideResNetSize& size, std::size_t group) {
  return (size.channels << group) * (size.basic ? 1 : 4);
}

/// The stride of block `i` of a group.
inline std::int64_t block_stride(const WideResNetSize& size, std::size_t group, int i) {
  return i == 0 && (group > 0 || size.strided_first) ? 2 : 1;
}

/// True if the shortcut of block `i` of a group is a projection.
inline bool is_projected(const WideResNetSize& size, std::size_t group, int i) {
  return i == 0 && (group > 0 || !size.basic || size.strided_first);
}

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
           Initializer scale = ones, nn::Padding padding = nn::Padding::same)
      : conv_(features, {window, window},
              {.stride = {stride, stride}, .padding = padding, .bias = false, .name = "conv"}),
        norm_({.scale = scale, .name = "norm"}) {}
  /// x [B, H, W, C] → [B, H / stride, W / stride, features].
  Value operator()(Value x) const { return norm_(conv_(x)); }

 private:
  nn::Conv2d conv_;
  nn::BatchNorm norm_;
};

/// relu(shortcut(x) + branch(x)). The branch of a bottleneck: "reduce", 1 x 1 to `channels`;
/// "middle", 3 x 3 to `width` times these; "expand", 1 x 1 to four times these. That of a basic
/// block: "middle" and "expand", both 3 x 3 to `channels`. A shortcut that is no identity is
/// "project".
class ResidualBlock {
 public:
  /// Block `i` of a group.
  ResidualBlock(const WideResNetSize& size, std::size_t group, int i) {
    const std::int64_t channels = size.channels << group, stride = block_stride(size, group, i),
                       ahead = size.strided_reduce ? stride : 1;
    const auto layer = [&](const char* name, std::int64_t features, std::int64_t window,
                           std::int64_t by, Initializer scale = ones) {
      return nn::Layer(name, ConvNorm(features, window, by, scale, size.padding));
    };
    if (size.basic) {
      branch_ = {layer("middle", channels, 3, stride), layer("expand", channels, 3, 1, zeros)};
    } else {
      branch_ = {layer("reduce", channels, 1, ahead),
                 layer("middle", channels * size.width, 3, stride / ahead),
                 layer("expand", channels * 4, 1, 1, zeros)};
    }
    if (is_projected(size, group, i))
      shortcut_ = layer("project", group_features(size, group), 1, stride);
  }

  /// x [B, H, W, C] → [B, H / stride, W / stride, features].
  Value operator()(Value x) const {
    Value y = x;
    for (std::size_t i = 0; i < branch_.size(); ++i) y = branch_[i](i == 0 ? y : relu(y));
    return relu((shortcut_ ? shortcut_(x) : x) + y);
  }

 private:
  std::vector<nn::Layer> branch_;
  nn::Layer shortcut_;
};

/// Images [B, H, W, 3] (any channels) → logits [B, classes]. A pipeline may be cut before every
/// block. Parameters: "stem.conv.kernel", "groups.1.blocks.0.middle.norm.scale", "head.bias".
inline nn::Sequential wide_resnet(const WideResNetSize& size) {
  nn::Sequential model;
  model.add({"stem", ConvNorm(size.channels, size.small_images ? 3 : 7, size.small_images ? 1 : 2,
                              ones, size.padding)});
  model.add(nn::ReLU());
  if (size.pooled_stem) model.add(nn::MaxPool{{3, 3}, {2, 2}, size.padding});
  for (std::size_t group = 0; group < size.blocks.size(); ++group)
    for (int i = 0; i < size.blocks[group]; ++i) {
      const ResidualBlock block(size, group, i);
      model.add(mark_pipeline_boundary);
      const std::string name = fmt::format("groups.{}.blocks.{}", group, i);
      model.add(size.remat ? nn::Layer(name, nn::remat(block)) : nn::Layer(name, block));
    }
  return model.add(nn::GlobalAveragePool()).add(nn::Dense(size.classes, {.name = "head"}));
}

}  // namespace alpa::models
#pragma GCC visibility pop
