#pragma once
/// Encoders of BERT (Devlin et al. 2019) and ViT (Dosovitskiy et al. 2021), which differ in where
/// they normalise.
#include <optional>
#include <string>
#include <vector>

#include "alpa/alpa.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Sizes and variants of an encoder.
struct EncoderOptions {
  std::int64_t layers = 2, hidden = 64, heads = 4;  ///< blocks, width, heads; heads divide hidden
  double dropout = 0;                               ///< rate, of attention and both sums of a block
  bool norm_first = false;          ///< ViT's: sums are not normalised; else BERT's: they are
  std::optional<DType> dtype = {};  ///< of parameters; default: the step's
  bool remat = false;               ///< blocks are layers for `StepOptions::remat`
  std::int64_t feed_forward = 0;    ///< width between the products of a block; 0: 4·hidden
  bool exact_gelu = false;          ///< GELU by the error function, not its tanh form
  double norm_epsilon = 1e-5;       ///< of all norms
  bool query_bias = true;           ///< biases of queries, keys and values
};

/// A norm of an encoder, by its name.
inline nn::LayerNorm encoder_norm(const EncoderOptions& o, const std::string& name) {
  return nn::LayerNorm(nn::NormOptions{.epsilon = o.norm_epsilon, .name = name});
}

/// Attention in both directions and a feed-forward pair, each added to its input.
class EncoderBlock {
 public:
  /// A block of these sizes. Throws Error if the heads do not divide the width.
  explicit EncoderBlock(const EncoderOptions& o)
      : attention_(o.hidden, o.heads,
                   {.causal = false,
                    .dropout = o.dropout,
                    .bias = o.query_bias,
                    .kernel = kernel(),
                    .projection_bias = true,
                    .name = "attention"}),
        up_(o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden,
            {.kernel = kernel(), .name = "feed_forward.up"}),
        down_(o.hidden, {.kernel = kernel(), .name = "feed_forward.down"}),
        first_(encoder_norm(o, "attention_norm")),
        second_(encoder_norm(o, "feed_forward_norm")),
        gelu_(nn::GELU{o.exact_gelu}),
        dropout_(o.dropout),
        norm_first_(o.norm_first) {}

  /// x [B, T, C] → [B, T, C]; `key_mask`: u8 [B, T], 0 where a token is padding.
  Value operator()(Value x, Value key_mask = {}) const {
    if (norm_first_) {
      x = x + dropout_(attention_(first_(x), key_mask));
      return x + dropout_(feed_forward(second_(x)));
    }
    x = first_(x + dropout_(attention_(x, key_mask)));
    return second_(x + dropout_(feed_forward(x)));
  }

  /// Initial kernels of BERT and ViT: normal, with standard deviation 0.02.
  static nn::KernelInitializer kernel() { return Initializer::normal(0, 0.02); }

 private:
  Value feed_forward(Value x) const { return down_(gelu_(up_(x))); }

  nn::SelfAttention attention_;
  nn::Dense up_, down_;
  nn::LayerNorm first_, second_;
  nn::GELU gelu_;
  nn::Dropout dropout_;
  bool norm_first_;
};

/// Blocks one after another, "encoder.blocks.0"; each is a layer of pipelines.
class Encoder {
 public:
  /// An encoder of these sizes.
  explicit Encoder(const EncoderOptions& options) : remat_(options.remat) {
    for (std::int64_t i = 0; i < options.layers; ++i) blocks_.emplace_back(options);
  }
  /// x [B, T, C] → [B, T, C]; `key_mask` as in `EncoderBlock`.
  Value operator()(Value x, Value key_mask = {}) const {
    const nn::Scope encoder(x, "encoder");
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (i > 0) x = mark_pipeline_boundary(x);
      const nn::Scope in(x, "blocks", i);
      x = remat_ ? nn::remat(blocks_[i])(x, key_mask) : blocks_[i](x, key_mask);
    }
    return x;
  }

 private:
  std::vector<EncoderBlock> blocks_;
  bool remat_;
};

}  // namespace alpa::models
#pragma GCC visibility pop
