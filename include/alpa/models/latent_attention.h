#pragma once
/// Latent attention of DeepSeek-V2 (arXiv 2405.04434). Letters: B rows, T tokens, C hidden.
#include "alpa/alpa.h"
#include "alpa/models/decoder_options.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Causal self-attention whose queries, keys and values are made from vectors of few elements. Part
/// of a head has rotary positions, which the keys of all heads share.
class LatentAttention {
 public:
  /// The attention of a decoder whose `variant.latent` has a `key_rank`.
  explicit LatentAttention(const DecoderOptions& o)
      : latent_(o.variant.latent),
        heads_(o.heads),
        norm_(decoder_norm_options(o, "")),
        hidden_(o.hidden) {
    rotary_.base = o.rotary_base;
  }

  /// x [B, T, C] → [B, T, C].
  Value operator()(Value x) const {
    const LatentSizes& s = latent_;
    const nn::Scope in(x, id_, "attention");
    const Value at = nn::positions(x);
    const Value queries = heads(
        s.query_rank > 0 ? dense(heads_ * s.width(), "query_up",
                                 normalized(dense(s.query_rank, "query_down", x), "query_norm"))
                         : dense(heads_ * s.width(), "query", x));
    const Value down = dense(s.key_rank + s.turned, "key_down", x);
    const Value up = heads(dense(heads_ * (s.plain + s.values), "key_up",
                                 normalized(slice(down, 2, 0, s.key_rank), "key_norm")));
    const Value shared = rotary(reshape(slice(down, 2, s.key_rank, s.key_rank + s.turned),
                                        {x.dim(0), x.dim(1), 1, s.turned}),
                                at, rotary_);
    const Value keys = concatenate(
        {slice(up, 3, 0, s.plain), broadcast_to(shared, {x.dim(0), x.dim(1), heads_, s.turned})});
    const Value turned = concatenate({slice(queries, 3, 0, s.plain),
                                      rotary(slice(queries, 3, s.plain, s.width()), at, rotary_)});
    // Attention has one width for all: values get zeros, which are cut off.
    const Value values = pad(slice(up, 3, s.plain, s.plain + s.values), 3, 0, s.width() - s.values);
    const Value attended = attention(turned, keys, values, {.causal = true});
    return dense(hidden_, "projection",
                 reshape(slice(attended, 3, 0, s.values), {x.dim(0), x.dim(1), heads_ * s.values}));
  }

 private:
  /// x · kernel, [B, T, width].
  Value dense(std::int64_t width, const char* name, Value x) const {
    return nn::Dense(width, {false, Initializer::normal(0, 0.02), name})(x);
  }
  Value normalized(Value x, const char* name) const {
    nn::NormOptions options = norm_;
    options.name = name;
    return nn::RMSNorm(options)(x);
  }
  /// [B, T, heads · n] → [B, T, heads, n].
  Value heads(Value x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}); }

  nn::LayerId id_{"attention"};
  LatentSizes latent_;
  std::int64_t heads_;
  RotaryOptions rotary_;
  nn::NormOptions norm_;
  std::int64_t hidden_;
};

}  // namespace alpa::models
#pragma GCC visibility pop
