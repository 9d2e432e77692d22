#pragma once
/// Decoders: GPT (Radford et al. 2019), Llama (Touvron et al. 2023: RMS norm, rotary positions,
/// SwiGLU, grouped queries) and those that vary Llama: Qwen, Mistral, Mixtral, Gemma, Phi-3. Models
/// are layers of `alpa/nn`, so this header is also a pattern for models of your own. Letters: B
/// rows of a batch, T tokens of a row, C `hidden`.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "alpa/alpa.h"
#include "alpa/models/decoder_options.h"
#include "alpa/models/decoder_sizes.h"
#include "alpa/models/latent_attention.h"
#include "alpa/models/tied_head.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// The norm of a kind, with parameters "<name>.scale" and, in GPT, "<name>.bias".
inline nn::Layer decoder_norm(const DecoderOptions& o, const std::string& name) {
  const nn::NormOptions options = decoder_norm_options(o, name);
  if (o.kind == DecoderKind::llama) return nn::RMSNorm(options);
  return nn::LayerNorm(options);
}

/// x + attention(norm(x)), then x + feed_forward(norm(x)).
class DecoderBlock {
 public:
  /// Block `index` of these sizes. Throws Error if the heads do not divide the width.
  explicit DecoderBlock(const DecoderOptions& o, std::int64_t index = 0)
      : attention_(attention(o, index)),
        attention_norm_(decoder_norm(o, "attention_norm")),
        feed_forward_norm_(decoder_norm(o, "feed_forward_norm")),
        feed_forward_(feed_forward(o, index)),
        dropout_(o.dropout) {
    if (!o.variant.norms_behind) return;
    norms_behind_ = {decoder_norm(o, "attention_norm_behind"),
                     decoder_norm(o, "feed_forward_norm_behind")};
  }

  /// x [B, T, C] → [B, T, C].
  Value operator()(Value x) const {
    x = x + dropout_(behind(0, attention_(attention_norm_(x))));
    return x + dropout_(behind(1, feed_forward_(feed_forward_norm_(x))));
  }

 private:
  static bool has_window(const DecoderVariant& v, std::int64_t index) {
    if (v.window == 0 || v.windowed.empty()) return v.window > 0;
    require(index < std::ssize(v.windowed),
            "models::Decoder: `windowed` has {} entries, none for block {}; give one per block",
            v.windowed.size(), index);
    return v.windowed[static_cast<std::size_t>(index)];
  }
  /// The result x of attention or of the feed-forward layer, behind its norm if it has one.
  Value behind(std::size_t norm, Value x) const {
    return norms_behind_.empty() ? x : norms_behind_[norm](x);
  }
  static nn::Layer attention(const DecoderOptions& o, std::int64_t index) {
    if (o.variant.latent.key_rank > 0) return LatentAttention(o);
    return nn::SelfAttention(o.hidden, o.heads, attention_options(o, has_window(o.variant, index)));
  }
  static nn::SelfAttentionOptions attention_options(const DecoderOptions& o, bool windowed) {
    const bool llama = o.kind == DecoderKind::llama;
    nn::SelfAttentionOptions options{.key_heads = o.key_heads,
                                     .dropout = o.dropout,
                                     .bias = !llama || o.query_bias,
                                     .head_width = o.head_width,
                                     .scale = o.variant.score_scale,
                                     .soft_cap = o.variant.score_cap,
                                     .kernel = kernel(),
                                     .projection = narrow(o),
                                     .projection_bias = !llama || o.projection_bias,
                                     .name = "attention"};
    if (windowed) options.window = o.variant.window;
    if (llama) add_positions(o, windowed, options);
    return options;
  }
  /// Rotary positions and norms of heads.
  static void add_positions(const DecoderOptions& o, bool windowed,
                            nn::SelfAttentionOptions& options) {
    options.rotary = RotaryOptions{.base = o.rotary_base, .scaling = o.rotary_scaling};
    if (windowed && o.variant.windowed_rotary_base > 0)
      options.rotary = RotaryOptions{.base = o.variant.windowed_rotary_base};
    if (o.variant.rotary_share < 1)
      options.rotary_width =
          static_cast<std::int64_t>(static_cast<double>(head_width_of(o)) * o.variant.rotary_share);
    if (o.variant.head_norms) options.head_norm = decoder_norm_options(o, "");
  }
  static nn::KernelInitializer kernel() { return Initializer::normal(0, 0.02); }
  /// GPT-2's: what is added to the residual is smaller the more layers there are.
  static nn::KernelInitializer narrow(const DecoderOptions& o) {
    return Initializer::normal(0, 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers)));
  }
  static nn::Layer feed_forward(const DecoderOptions& o, std::int64_t index) {
    const DecoderExperts& e = o.variant.experts;
    const std::int64_t usual = o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden,
                       width = index < e.first ? e.dense : usual;
    Value (*const gate)(Value) = o.variant.gelu_gate ? gelu : silu;
    if (e.count > 0 && index >= e.first) {
      const double all = static_cast<double>(e.count) / e.choices;
      const nn::MoE experts(e.count, width,
                            {.choices = e.choices,
                             .capacity_factor = e.capacity_factor > 0 ? e.capacity_factor : all,
                             .group = 0,
                             .activation = gate,
                             .gated = true,
                             .kernel = kernel(),
                             .name = "feed_forward"});
      if (e.shared == 0) return [experts](Value x) { return experts(x).y; };
      const nn::SwiGLU shared(o.hidden, e.shared, {kernel(), "shared", gate});
      return [experts, shared](Value x) { return experts(x).y + shared(x); };
    }
    if (o.kind == DecoderKind::llama)
      return nn::SwiGLU(o.hidden, width, {kernel(), "feed_forward", gate});
    return nn::Sequential({nn::Dense(width, {.kernel = kernel(), .name = "up"}), nn::GELU(),
                           nn::Dense(o.hidden, {.kernel = narrow(o), .name = "down"})},
                          {.name = "feed_forward"});
  }

  nn::Layer attention_, attention_norm_, feed_forward_norm_;
  std::vector<nn::Layer> norms_behind_;
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
    for (std::int64_t i = 0; i < options.layers; ++i) blocks_.emplace_back(options_, i);
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
    const Value logits = head_(norm_(nn::needed_tokens(x)));
    const double cap = options_.variant.logit_cap;
    return cap > 0 ? tanh(logits * (1 / cap)) * cap : logits;
  }

  /// Mean cross-entropy, in nats per token, of labels i32 [B, T] after tokens i32 [B, T].
  LossAndMetrics loss(Value tokens, Value labels) const {
    return nn::cross_entropy((*this)(tokens), labels);
  }
  /// The same of documents in rows: a batch of `packed_batches`, whose labels -1 do not count.
  LossAndMetrics packed_loss(const Batch& b) const {
    const nn::Documents documents(b["segments"], b["positions"]);
    return nn::counted_cross_entropy((*this)(b["tokens"]), b["labels"]);
  }

 private:
  Value embed(Value tokens) const {
    const Value x = tokens_(tokens);
    if (options_.kind == DecoderKind::gpt) return x + positions_(nn::positions(tokens));
    const double scale = options_.variant.embedding_scale;
    return scale == 1 ? x : x * scale;
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
