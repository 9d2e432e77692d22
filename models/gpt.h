#pragma once
/// Decoders: GPT (Radford et al. 2019) and a Llama-like variant (Touvron et al. 2023: RMS norm,
/// rotary positions, SwiGLU, grouped queries).
#include <alpa/alpa.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/decoder_sizes.h"
#include "models/tied_head.h"

namespace models {

enum class DecoderKind : std::uint8_t { gpt, llama };

struct DecoderOptions {
  DecoderKind kind = DecoderKind::gpt;
  std::int64_t layers = 2, hidden = 64, heads = 4, key_heads = 0;
  std::int64_t sequence = 1024, vocabulary = 51200;
  std::int64_t feed_forward = 0;  ///< width between the products; 0: 4·hidden
  double dropout = 0;
  bool head_bias = true;  ///< a learnt number per token of the vocabulary (Alpa's GPT; not GPT-2)
  bool tied_head = true;  ///< the head is the embedding's table; else a kernel of its own, no bias
  /// Of Llama's queries, keys and values (Qwen2's have one), and of what follows them.
  bool query_bias = false, projection_bias = false;
  double norm_epsilon = 0;                                 ///< 0: 1e-5 of GPT, 1e-6 of Llama
  double rotary_base = 10000;                              ///< of Llama's positions
  std::optional<alpa::RotaryScaling> rotary_scaling = {};  ///< of Llama 3.1 and later
  std::optional<alpa::DType> dtype = {};                   ///< of parameters; default: the step's
  bool remat = false;  ///< blocks are layers for `StepOptions::remat`
};

inline alpa::nn::Layer decoder_norm(const DecoderOptions& o, const std::string& name) {
  alpa::nn::NormOptions options{.name = name};
  if (o.norm_epsilon > 0) options.epsilon = o.norm_epsilon;
  if (o.kind == DecoderKind::llama) return alpa::nn::RMSNorm(options);
  return alpa::nn::LayerNorm(options);
}

/// x + attention(norm(x)), then x + feed_forward(norm(x)).
class DecoderBlock {
 public:
  explicit DecoderBlock(const DecoderOptions& o)
      : attention_(o.hidden, o.heads, attention_options(o)),
        norms_{decoder_norm(o, "attention_norm"), decoder_norm(o, "feed_forward_norm")},
        feed_forward_(feed_forward(o)),
        dropout_(o.dropout) {}

  alpa::Value operator()(alpa::Value x) const {
    return after_attention(x + dropout_(attention_(norms_[0](x))));
  }

  /// The block for new tokens x, which attend to those in the cache, too.
  alpa::Value operator()(alpa::Value x, alpa::nn::KeyValueCache& cache) const {
    return after_attention(x + attention_(norms_[0](x), cache));
  }

 private:
  static alpa::nn::SelfAttentionOptions attention_options(const DecoderOptions& o) {
    const bool llama = o.kind == DecoderKind::llama;
    alpa::nn::SelfAttentionOptions options{.key_heads = o.key_heads,
                                           .dropout = o.dropout,
                                           .bias = !llama || o.query_bias,
                                           .kernel = kernel(),
                                           .projection = narrow(o),
                                           .projection_bias = !llama || o.projection_bias,
                                           .name = "attention"};
    if (llama)
      options.rotary = alpa::RotaryOptions{.base = o.rotary_base, .scaling = o.rotary_scaling};
    return options;
  }
  static alpa::nn::KernelInitializer kernel() { return alpa::Initializer::normal(0, 0.02); }
  /// GPT-2's: what is added to the residual is smaller the more layers there are.
  static alpa::nn::KernelInitializer narrow(const DecoderOptions& o) {
    return alpa::Initializer::normal(0, 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers)));
  }
  static alpa::nn::Layer feed_forward(const DecoderOptions& o) {
    const std::int64_t width = o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden;
    if (o.kind == DecoderKind::llama)
      return alpa::nn::SwiGLU(o.hidden, width, {kernel(), "feed_forward"});
    return alpa::nn::Sequential(
        {alpa::nn::Dense(width, {.kernel = kernel(), .name = "up"}), alpa::nn::GELU(),
         alpa::nn::Dense(o.hidden, {.kernel = narrow(o), .name = "down"})},
        {.name = "feed_forward"});
  }
  alpa::Value after_attention(alpa::Value x) const {
    return x + dropout_(feed_forward_(norms_[1](x)));
  }

  alpa::nn::SelfAttention attention_;
  std::array<alpa::nn::Layer, 2> norms_;
  alpa::nn::Layer feed_forward_;
  alpa::nn::Dropout dropout_;
};

/// Predicts every next token. Each block is a layer of pipelines. Parameters are called
/// "tokens.table", "blocks.3.attention.query.kernel", "head.bias" and so on.
class Decoder {
 public:
  explicit Decoder(DecoderOptions options)
      : options_(options),
        tokens_(options.vocabulary, options.hidden, {.dtype = options.dtype, .name = "tokens"}),
        positions_(options.sequence, options.hidden, {.dtype = options.dtype, .name = "positions"}),
        norm_(decoder_norm(options, "norm")),
        dropout_(options.dropout),
        head_(head_of(options, tokens_)) {
    for (std::int64_t i = 0; i < options.layers; ++i) blocks_.emplace_back(options_);
  }

  const DecoderOptions& options() const { return options_; }

  /// Tokens i32 [B, T] → logits [B, T, vocabulary].
  alpa::Value operator()(alpa::Value tokens) const {
    alpa::Value x = dropout_(embed(tokens, iota(tokens, {alpa::i32, {tokens.dim(1)}})));
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (i > 0) x = mark_pipeline_boundary(x);
      const alpa::nn::Scope in(x, "blocks", i);
      x = options_.remat ? alpa::nn::remat(blocks_[i])(x) : blocks_[i](x);
    }
    return head(x);
  }

  /// Logits [B, 1, vocabulary] of what follows the last of new tokens i32 [B, T]: for
  /// `alpa::generate`.
  alpa::Value operator()(alpa::Value tokens, alpa::nn::KeyValueCache& cache) const {
    alpa::Value x = embed(tokens, cache.positions());
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (i > 0) x = mark_pipeline_boundary(x);
      const alpa::nn::Scope in(x, "blocks", i);
      x = blocks_[i](x, cache);
    }
    return head(cache.last(x));
  }

  /// Mean cross-entropy of labels i32 [B, T].
  alpa::LossAndMetrics loss(alpa::Value tokens, alpa::Value labels) const {
    return alpa::nn::cross_entropy((*this)(tokens), labels);
  }

 private:
  alpa::Value embed(alpa::Value tokens, alpa::Value positions) const {
    const alpa::Value x = tokens_(tokens);
    return options_.kind == DecoderKind::gpt ? x + positions_(positions) : x;
  }
  alpa::Value head(alpa::Value x) const { return head_(norm_(x)); }
  static alpa::nn::Layer head_of(const DecoderOptions& o, const alpa::nn::Embedding& tokens) {
    if (!o.tied_head)
      return alpa::nn::Dense(o.vocabulary, {false, alpa::Initializer::normal(0, 0.02), "head"});
    return TiedHead(tokens, o.vocabulary, o.head_bias && o.kind == DecoderKind::gpt);
  }

  DecoderOptions options_;
  alpa::nn::Embedding tokens_, positions_;
  std::vector<DecoderBlock> blocks_;
  alpa::nn::Layer norm_;
  alpa::nn::Dropout dropout_;
  alpa::nn::Layer head_;
};

}  // namespace models
