#pragma once
/// Decoders: GPT (Radford et al. 2019) and Llama (Touvron et al. 2023: RMS norm, rotary positions,
/// SwiGLU, grouped queries). Models are layers of `alpa/nn`, so this header is also a pattern for
/// models of your own. Letters: B rows of a batch, T tokens of a row, C `hidden`.
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/alpa.h"
#include "alpa/models/decoder_sizes.h"
#include "alpa/models/tied_head.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// gpt: layer norm, learnt positions, GELU. llama: RMS norm, rotary positions, SwiGLU.
enum class DecoderKind : std::uint8_t { gpt, llama };

/// Sizes and variants of a decoder.
struct DecoderOptions {
  DecoderKind kind = DecoderKind::gpt;  ///< kind of norm, positions and feed-forward layer
  std::int64_t layers = 2, hidden = 64, heads = 4;  ///< blocks, width, heads; heads divide hidden
  std::int64_t key_heads = 0;       ///< heads of keys and values, a divisor of heads; 0: heads
  std::int64_t sequence = 1024;     ///< learnt positions of GPT: the most tokens of a row
  std::int64_t vocabulary = 51200;  ///< number of tokens
  std::int64_t feed_forward = 0;    ///< width between the products; 0: 4·hidden
  double dropout = 0;               ///< rate, of embedding, attention and both sums of a block
  bool head_bias = true;  ///< a learnt number per token of the vocabulary (Alpa's GPT; not GPT-2)
  bool tied_head = true;  ///< the head is the embedding's table; else a kernel of its own, no bias
  /// Biases of Llama's queries, keys and values (Qwen2 has them), and of attention's projection.
  bool query_bias = false, projection_bias = false;
  double norm_epsilon = 0;     ///< of the norms; 0: 1e-5 of GPT, 1e-6 of Llama
  double rotary_base = 10000;  ///< base of Llama's rotary positions
  std::optional<RotaryScaling> rotary_scaling = {};  ///< scaling of Llama 3.1 and later
  std::optional<DType> dtype = {};                   ///< of parameters; default: the step's
  bool remat = false;                                ///< blocks are layers for `StepOptions::remat`
};

/// The norm of a kind, with parameters "<name>.scale" and, in GPT, "<name>.bias".
inline nn::Layer decoder_norm(const DecoderOptions& o, const std::string& name) {
  nn::NormOptions options{.name = name};
  if (o.norm_epsilon > 0) options.epsilon = o.norm_epsilon;
  if (o.kind == DecoderKind::llama) return nn::RMSNorm(options);
  return nn::LayerNorm(options);
}

/// x + attention(norm(x)), then x + feed_forward(norm(x)).
class DecoderBlock {
 public:
  /// A block of these sizes. Throws Error if the heads do not divide the width.
  explicit DecoderBlock(const DecoderOptions& o)
      : attention_(o.hidden, o.heads, attention_options(o)),
        attention_norm_(decoder_norm(o, "attention_norm")),
        feed_forward_norm_(decoder_norm(o, "feed_forward_norm")),
        feed_forward_(feed_forward(o)),
        dropout_(o.dropout) {}

  /// x [B, T, C] → [B, T, C].
  Value operator()(Value x) const {
    x = x + dropout_(attention_(attention_norm_(x)));
    return x + dropout_(feed_forward_(feed_forward_norm_(x)));
  }

 private:
  static nn::SelfAttentionOptions attention_options(const DecoderOptions& o) {
    const bool llama = o.kind == DecoderKind::llama;
    nn::SelfAttentionOptions options{.key_heads = o.key_heads,
                                     .dropout = o.dropout,
                                     .bias = !llama || o.query_bias,
                                     .kernel = kernel(),
                                     .projection = narrow(o),
                                     .projection_bias = !llama || o.projection_bias,
                                     .name = "attention"};
    if (llama) options.rotary = RotaryOptions{.base = o.rotary_base, .scaling = o.rotary_scaling};
    return options;
  }
  static nn::KernelInitializer kernel() { return Initializer::normal(0, 0.02); }
  /// GPT-2's: what is added to the residual is smaller the more layers there are.
  static nn::KernelInitializer narrow(const DecoderOptions& o) {
    return Initializer::normal(0, 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers)));
  }
  static nn::Layer feed_forward(const DecoderOptions& o) {
    const std::int64_t width = o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden;
    if (o.kind == DecoderKind::llama)
      return nn::SwiGLU(o.hidden, width, {kernel(), "feed_forward"});
    return nn::Sequential({nn::Dense(width, {.kernel = kernel(), .name = "up"}), nn::GELU(),
                           nn::Dense(o.hidden, {.kernel = narrow(o), .name = "down"})},
                          {.name = "feed_forward"});
  }

  nn::SelfAttention attention_;
  nn::Layer attention_norm_, feed_forward_norm_;
  nn::Layer feed_forward_;
  nn::Dropout dropout_;
};

/// Predicts every next token. Each block is a layer of pipelines. Parameters are called
/// "tokens.table", "blocks.3.attention.query.kernel", "head.bias" and so on.
class Decoder {
 public:
  /// A decoder of these sizes; its parameters are made where it is first called.
  explicit Decoder(DecoderOptions options)
      : options_(options),
        tokens_(options.vocabulary, options.hidden, {.dtype = options.dtype, .name = "tokens"}),
        positions_(options.sequence, options.hidden, {.dtype = options.dtype, .name = "positions"}),
        norm_(decoder_norm(options, "norm")),
        dropout_(options.dropout),
        head_(head_of(options, tokens_)) {
    for (std::int64_t i = 0; i < options.layers; ++i) blocks_.emplace_back(options_);
  }

  /// The sizes and variants it was made with.
  const DecoderOptions& options() const { return options_; }

  /// Tokens i32 [B, T] → logits [B, T, vocabulary]; [B, 1, vocabulary] for `alpa::generate`.
  Value operator()(Value tokens) const {
    Value x = dropout_(embed(tokens));
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (i > 0) x = mark_pipeline_boundary(x);
      const nn::Scope in(x, "blocks", i);
      x = options_.remat ? nn::remat(blocks_[i])(x) : blocks_[i](x);
    }
    return head_(norm_(nn::needed_tokens(x)));
  }

  /// Mean cross-entropy, in nats per token, of labels i32 [B, T] after tokens i32 [B, T].
  LossAndMetrics loss(Value tokens, Value labels) const {
    return nn::cross_entropy((*this)(tokens), labels);
  }

 private:
  Value embed(Value tokens) const {
    const Value x = tokens_(tokens);
    return options_.kind == DecoderKind::gpt ? x + positions_(nn::positions(tokens)) : x;
  }
  static nn::Layer head_of(const DecoderOptions& o, const nn::Embedding& tokens) {
    if (!o.tied_head) return nn::Dense(o.vocabulary, {false, Initializer::normal(0, 0.02), "head"});
    return TiedHead(tokens, o.vocabulary, o.head_bias && o.kind == DecoderKind::gpt);
  }

  DecoderOptions options_;
  nn::Embedding tokens_, positions_;
  std::vector<DecoderBlock> blocks_;
  nn::Layer norm_;
  nn::Dropout dropout_;
  nn::Layer head_;
};

}  // namespace alpa::models
#pragma GCC visibility pop
