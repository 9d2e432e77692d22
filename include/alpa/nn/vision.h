#pragma once
/// Layers for images [B, H, W, C]: convolution, pooling, batch normalisation.
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/nn/initializer.h"
#include "alpa/nn/layer.h"
#include "alpa/nn/layers.h"
#include "alpa/ops/ops.h"
#include "alpa/train/training_step.h"
#pragma GCC visibility push(default)

namespace alpa::nn {

/// Rows and columns.
using Extents = std::array<std::int64_t, 2>;

/// Zeros around an image: `same` gives ceil(extent / stride) windows, with the odd zero after the
/// last element, as TensorFlow and Flax do; `valid` adds none; `symmetric` adds half a window on
/// either side, rounded down, as PyTorch's models do.
enum class Padding : std::uint8_t { same, valid, symmetric };

/// Zeros before and after the rows and columns.
struct PaddingExtents {
  Extents before = {0, 0}, after = {0, 0};  ///< rows, columns
};

/// The zeros that `padding` puts around x [B, H, W, C].
inline PaddingExtents padding_of(Padding padding, Value x, const Extents& window,
                                 const Extents& stride, const Extents& dilation = {1, 1}) {
  PaddingExtents zeros;
  if (padding == Padding::valid || x.rank() != 4) return zeros;
  for (int d = 0; d < 2; ++d) {
    const std::int64_t extent = x.dim(1 + d), reach = dilation[d] * (window[d] - 1) + 1,
                       last = (extent - 1) / stride[d] * stride[d],
                       total = last + reach > extent ? last + reach - extent : 0;
    zeros.before[d] = total / 2, zeros.after[d] = total - total / 2;
    if (padding == Padding::symmetric) zeros.before[d] = zeros.after[d] = reach / 2;
  }
  return zeros;
}

/// Options of `Conv2d`.
struct Conv2dOptions {
  Extents stride = {1, 1}, dilation = {1, 1};  ///< of rows and columns
  Padding padding = Padding::same;             ///< zeros around the image
  std::int64_t groups = 1;               ///< divides channels and features; all channels: depthwise
  bool bias = true;                      ///< add a learnt vector, initially zero
  KernelInitializer kernel = he_normal;  ///< of fan-in kh · kw · C / groups
  std::string name = {};  ///< the layer's own; default: its position or kind (`Scope`)
};

/// 2-D convolution of x [B, H, W, C]: parameters "kernel" [kh, kw, C / groups, features]
/// and "bias" [features], of x's element type.
class Conv2d {
 public:
  /// Throws Error if features, an extent of the window or a stride is below 1.
  Conv2d(std::int64_t features, Extents window, Conv2dOptions options = {})
      : id_(options.name), features_(features), window_(window), options_(std::move(options)) {
    const auto& [stride, dilation, padding, groups, bias, kernel, name] = options_;
    require(features >= 1 && window[0] >= 1 && window[1] >= 1,
            "nn::Conv2d: {} features of {} x {} windows; give at least 1 of each", features,
            window[0], window[1]);
    require(stride[0] >= 1 && stride[1] >= 1 && dilation[0] >= 1 && dilation[1] >= 1 && groups >= 1,
            "nn::Conv2d: stride {} x {}, dilation {} x {}, {} groups; all must be at least 1",
            stride[0], stride[1], dilation[0], dilation[1], groups);
  }

  /// Throws Error unless x is [B, H, W, C] with channels that the groups divide.
  Value operator()(Value x) const {
    require(x.rank() == 4 && x.dim(3) % options_.groups == 0,
            "nn::Conv2d({}): the input is {}; it must be [B, H, W, C], C divisible by {} groups",
            features_, to_string(x.type()), options_.groups);
    const Scope in(x, id_, "conv2d");
    const std::int64_t taps = window_[0] * window_[1], inputs = x.dim(3) / options_.groups;
    const Value kernel =
        in.parameter("kernel", {window_[0], window_[1], inputs, features_},
                     options_.kernel(taps * inputs, taps * features_ / options_.groups));
    const PaddingExtents zeros =
        padding_of(options_.padding, x, window_, options_.stride, options_.dilation);
    const Value y = conv2d(x, kernel,
                           {.stride = options_.stride,
                            .dilation = options_.dilation,
                            .pad_before = zeros.before,
                            .pad_after = zeros.after,
                            .groups = options_.groups});
    return options_.bias ? y + in.parameter("bias", {features_}, alpa::zeros) : y;
  }

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  LayerId id_;
  std::int64_t features_;
  Extents window_;
  Conv2dOptions options_;
};

/// Options of `ConvTranspose2d`.
struct ConvTranspose2dOptions {
  Extents stride = {2, 2};  ///< of rows and columns: how many times larger the image becomes
  /// `same` makes images of H · stride rows, `valid` of (H - 1) stride + kh.
  Padding padding = Padding::same;
  bool bias = true;                      ///< add a learnt vector, initially zero
  KernelInitializer kernel = he_normal;  ///< of fan-in kh · kw · C / (stride · stride)
  std::string name = {};                 ///< the layer's own; default: its position or kind
};

/// Transposed convolution of x [B, H, W, C], which makes images larger: parameters "kernel" [kh,
/// kw, features, C] and "bias" [features], of x's element type.
class ConvTranspose2d {
 public:
  /// Throws Error unless features are at least 1, windows no smaller than the stride, which is at
  /// least 1, and the padding same or valid.
  ConvTranspose2d(std::int64_t features, Extents window, ConvTranspose2dOptions options = {})
      : id_(options.name), features_(features), window_(window), options_(std::move(options)) {
    const Extents& stride = options_.stride;
    require(features >= 1 && stride[0] >= 1 && stride[1] >= 1 && window[0] >= stride[0] &&
                window[1] >= stride[1] && options_.padding != Padding::symmetric,
            "nn::ConvTranspose2d: {} features of {} x {} windows with stride {} x {}; give at "
            "least 1 of each, windows no smaller than the stride, and padding same or valid",
            features, window[0], window[1], stride[0], stride[1]);
  }

  /// Throws Error unless x is [B, H, W, C].
  Value operator()(Value x) const {
    require(x.rank() == 4, "nn::ConvTranspose2d({}): the input is {}; it must be [B, H, W, C]",
            features_, to_string(x.type()));
    const Scope in(x, id_, "conv_transpose2d");
    const auto& [stride, padding, bias, initial, name] = options_;
    const std::int64_t taps = window_[0] * window_[1], channels = x.dim(3);
    const std::int64_t reached = taps * channels / (stride[0] * stride[1]);
    const Value kernel = in.parameter("kernel", {window_[0], window_[1], features_, channels},
                                      initial(reached > 0 ? reached : 1, taps * features_));
    Extents before = {0, 0}, after = {0, 0};
    for (int d = 0; d < 2 && padding == Padding::same; ++d) {
      before[d] = (window_[d] - stride[d]) / 2;
      after[d] = window_[d] - stride[d] - before[d];
    }
    const Value y =
        conv2d_transpose(x, kernel, {.stride = stride, .pad_before = before, .pad_after = after});
    return bias ? y + in.parameter("bias", {features_}, zeros) : y;
  }

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  LayerId id_;
  std::int64_t features_;
  Extents window_;
  ConvTranspose2dOptions options_;
};

/// Repeats every row and column: [B, H, W, C] → [B, H · factor, W · factor, C].
struct Upsample {
  Extents factor = {2, 2};  ///< of rows and columns
  Value operator()(Value x) const { return upsample(x, factor); }
};

/// (x - mean) / sqrt(variance + epsilon) · scale + bias for x [B, ..., C], with mean and variance
/// of each example over a group of neighbouring channels and all positions (Wu & He 2018), in f32
/// or f64. Parameters "scale" (ones) and "bias" (zeros), [C].
class GroupNorm {
 public:
  /// Throws Error unless groups >= 1 and epsilon (1e-5) > 0.
  explicit GroupNorm(std::int64_t groups, NormOptions options = {})
      : id_(std::move(options.name)), groups_(groups), epsilon_(options.epsilon.value_or(1e-5)) {
    require(groups >= 1 && epsilon_ > 0,
            "nn::GroupNorm: {} groups and epsilon {}; groups must be at least 1, epsilon above 0",
            groups, epsilon_);
  }

  /// Throws Error unless x has channels that the groups divide, and a batch.
  Value operator()(Value x) const {
    require(x.rank() >= 2 && x.dim(-1) % groups_ == 0,
            "nn::GroupNorm({}): the input is {}; it must be [B, ..., C], C divisible by {} groups",
            groups_, to_string(x.type()), groups_);
    const DType real = x.dtype() == f64 ? f64 : f32;
    const Scope in(x, id_, "group_norm");
    const Value scale = in.parameter("scale", {x.dim(-1)}, ones, real);
    const Value bias = in.parameter("bias", {x.dim(-1)}, zeros, real);
    const Value grouped = reshape(cast(x, real), {x.dim(0), -1, groups_, x.dim(-1) / groups_});
    const Value centred = grouped - mean(grouped, {1, 3}, true);
    const Value size = rsqrt(mean(square(centred), {1, 3}, true) + epsilon_);
    return cast(reshape(centred * size, x.shape()) * scale + bias, x.dtype());
  }

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  LayerId id_;
  std::int64_t groups_;
  double epsilon_;
};

/// Options of `BatchNorm`.
struct BatchNormOptions {
  double momentum = 0.9;     ///< share of the running statistics that a step keeps
  double epsilon = 1e-5;     ///< added to the variance
  Initializer scale = ones;  ///< zeros for the last one of a residual branch (Goyal et al. 2017)
  std::string name = {};     ///< the layer's own; default: its position or kind (`Scope`)
};

/// (x - mean) / sqrt(variance + epsilon) · scale + bias for x [..., C] (Ioffe & Szegedy 2015), in
/// f32 or f64. A training step takes mean and variance of its micro-batch, over all devices; they
/// need 2 C numbers from each. It averages them over micro-batches into the states "mean" and
/// "variance", which evaluation and prediction steps use. Parameters "scale" and "bias", [C].
/// With a frozen scale (`StepOptions::frozen`), it normalises with the running statistics, and
/// training does not change them. A layer normalises in one place of a model: two would average
/// different statistics into one mean and variance.
class BatchNorm {
 public:
  /// Throws Error unless 0 <= momentum < 1 and epsilon > 0.
  explicit BatchNorm(BatchNormOptions options = {})
      : id_(options.name), options_(std::move(options)) {
    require(options_.momentum >= 0 && options_.momentum < 1 && options_.epsilon > 0,
            "nn::BatchNorm: momentum {} must be in [0, 1) and epsilon {} above 0",
            options_.momentum, options_.epsilon);
  }

  /// Throws Error unless x has channels and another dimension, or if the layer normalises elsewhere
  /// in the model, in training.
  Value operator()(Value x) const {
    require(x.rank() >= 2, "nn::BatchNorm: the input is {}; it needs channels and a batch",
            to_string(x.type()));
    const DType real = x.dtype() == f64 ? f64 : f32;
    const Shape channels{x.dim(-1)};
    const Scope in(x, id_, "batch_norm");
    const Value scale = in.parameter("scale", channels, options_.scale, real);
    const Value bias = in.parameter("bias", channels, zeros, real);
    const Value mean = in.state("mean", scale, channels, zeros, real);
    const Value variance = in.state("variance", scale, channels, ones, real);
    const bool observes = x.builder->training() && !in.frozen("scale");
    require(!observes || !x.builder->has_update(mean),
            "nn::BatchNorm: layer \"{}\" normalises in two places of the model, but keeps one mean "
            "and variance; make a BatchNorm for each place, or freeze it",
            in.name());
    const Moments moments =
        observes ? observe(x, {mean, variance}, in.name()) : Moments{mean, variance};
    const Value gain = rsqrt(moments.variance + options_.epsilon) * scale;
    // In this form all gradients come from Σ dy and Σ dy·x, which devices reduce together.
    return scale_shift(x, gain, bias - moments.mean * gain);
  }

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  struct Moments {
    Value mean, variance;
  };

  /// Moments of this micro-batch; the running ones move towards their means over micro-batches.
  Moments observe(Value x, const Moments& running, const std::string& layer) const {
    const Values sums = channel_sums(x);
    const double share = static_cast<double>(x.dim(-1)) / static_cast<double>(x.type().elements());
    const Value mean = sums[0] * share, mean_square = sums[1] * share, square_mean = square(mean);
    // max(E[x²] - E[x]², 0), in a form that needs E[x²] as such: devices then reduce both together.
    const Moments now{mean, maximum(mean_square, square_mean) - square_mean};
    move(running.mean, now.mean, layer + ".mean");
    move(running.variance, now.variance, layer + ".variance");
    return now;
  }

  void move(Value running, Value now, const std::string& name) const {
    Builder& builder = running;
    const Value mean = mean_over_micro_batches(name, stop_gradient(now));
    const RegionScope once(builder, Region::apply);
    builder.update(running, running * options_.momentum + mean * (1 - options_.momentum));
  }

  LayerId id_;
  BatchNormOptions options_;
};

/// What `pool` makes of every window of x [B, H, W, C].
template <Value (*pool)(Value, PoolingOptions)>
struct Pool {
  Extents window = {2, 2}, stride = {2, 2};  ///< rows, columns
  Padding padding = Padding::valid;          ///< zeros around the image
  Value operator()(Value x) const {
    const PaddingExtents zeros = padding_of(padding, x, window, stride);
    return pool(x, {window, stride, zeros.before, zeros.after});
  }
};
using MaxPool = Pool<max_pool>;          ///< largest element
using AveragePool = Pool<average_pool>;  ///< mean; padding does not count

/// [B, H, W, C] → [B, C]: the mean over all pixels.
struct GlobalAveragePool {
  Value operator()(Value x) const { return mean(x, {1, 2}); }
};

/// [B, ...] → [B, everything else].
struct Flatten {
  Value operator()(Value x) const { return reshape(x, {x.dim(0), -1}); }
};

}  // namespace alpa::nn
#pragma GCC visibility pop
