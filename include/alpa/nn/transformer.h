#pragma once
/// Layers of transformers: attention over heads, gated feed-forward, RMS normalisation.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "alpa/nn/layers.h"
#pragma GCC visibility push(default)

namespace alpa::nn {

/// x / sqrt(mean(x²) + epsilon) · scale over the last dimension of x [..., C] (Zhang & Sennrich
/// 2019): parameter "scale" (ones), [C], of x's element type; `scale_from_one`: zeros, and 1 is
/// added to it.
class RMSNorm {
 public:
  /// Throws Error unless epsilon (1e-6) > 0.
  explicit RMSNorm(NormOptions options = {})
      : id_(std::move(options.name)),
        epsilon_(options.epsilon.value_or(1e-6)),
        scale_from_one_(options.scale_from_one) {
    require(epsilon_ > 0, "nn::RMSNorm: epsilon must be above 0, not {}", epsilon_);
  }
  explicit RMSNorm(double epsilon) : RMSNorm(NormOptions{.epsilon = epsilon}) {}

  /// Throws Error if x is a scalar.
  Value operator()(Value x) const {
    require(x.rank() >= 1, "nn::RMSNorm: the input is {}; it needs a feature dimension",
            to_string(x.type()));
    const Scope in(x, id_, "rms_norm");
    const Value scale = in.parameter("scale", {x.dim(-1)}, scale_from_one_ ? zeros : ones);
    return rms_norm(x, scale_from_one_ ? scale + 1 : scale, epsilon_);
  }

  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  LayerId id_;
  double epsilon_;
  bool scale_from_one_;
};

/// Keys and values of the tokens so far, of every attention layer of a decoder: with them a step
/// computes new tokens alone, all those of a prompt or one of each row (`generate`). They are state
/// of the step, changed in place, and no more of them is read than there are tokens. During its
/// lifetime, layers of the builder find it: `SelfAttention`, `positions` and `needed_tokens`.
class KeyValueCache {
 public:
  /// For new tokens at `positions` i32 [B, T], consecutive in each row and below `length`. `last`:
  /// i32 [B], which of a row's T tokens is its last one; the others are padding. Default: T - 1.
  /// Throws Error in a step of several micro-batches.
  KeyValueCache(Value positions, std::int64_t length, Value last = {})
      : in_(*positions.builder, this), positions_(positions), length_(length), last_(last) {
    require(positions.rank() == 2 && positions.dtype() == i32,
            "nn::KeyValueCache: the positions are {}; they must be i32 [B, T]",
            to_string(positions.type()));
    require(length >= positions.dim(1), "nn::KeyValueCache: {} new tokens exceed its length of {}",
            positions.dim(1), length);
    require(positions.builder->num_micro_batches() == 1,
            "nn::KeyValueCache: the step has {} micro-batches; give it one",
            positions.builder->num_micro_batches());
    first_ = reshape(slice(positions, 1, 0, 1), {positions.dim(0)});
  }

  Value positions() const { return positions_; }   ///< of the new tokens
  std::int64_t length() const { return length_; }  ///< most tokens of a row
  std::int64_t layers() const { return layers_; }  ///< that have attended so far

  /// Adds keys and values [B, T, K, D] of the new tokens, then attends with queries [B, T, H, D] to
  /// all tokens up to their own, with `scale`, `window` and `soft_cap` of the options. To be called
  /// once by each layer, in the same order in all steps.
  Value attend(Value queries, Value keys, Value values, const AttentionOptions& options = {}) {
    const std::string name = "cache." + std::to_string(layers_++);
    keys = written(name + ".keys", keys);
    values = written(name + ".values", values);
    return attention(queries, keys, values,
                     {.scale = options.scale,
                      .window = options.window,
                      .soft_cap = options.soft_cap,
                      .positions = first_});
  }

  /// x [B, T, C] → [B, 1, C], that of each row's last token.
  Value last(Value x) const {
    const std::int64_t tokens = x.dim(1);
    if (tokens == 1) return x;
    if (!last_) return slice(x, 1, tokens - 1, tokens);
    const Value ids = reshape(last_, {x.dim(0), 1, 1});
    return take_along_axis(x, broadcast_to(ids, {x.dim(0), 1, x.dim(2)}), 1);
  }

 private:
  Value written(const std::string& name, Value rows) const {
    Shape shape = rows.shape();
    shape.at(1) = length_;
    const Value state = rows.builder->step_state(name, {rows.dtype(), shape}, Initializer::unset());
    const Value now = write_rows(state, rows, first_);
    rows.builder->update(state, now);
    return now;
  }

  BuilderScope<KeyValueCache*, &Builder::cache, &Builder::set_cache> in_;
  Value positions_;
  std::int64_t length_;
  Value last_, first_;
  std::int64_t layers_ = 0;
};

/// Several documents in a row of tokens, as `packed_batches` makes them. During its lifetime,
/// layers of the builder find it: `SelfAttention` sees tokens of the same document alone, and
/// `positions` are those in the document.
class Documents {
 public:
  /// Numbers of the tokens' documents in their row, and positions in these, both i32 [B, T].
  Documents(Value segments, Value positions)
      : in_(*segments.builder, this), segments_(segments), positions_(positions) {
    require(segments.rank() == 2 && segments.dtype() == i32 && positions.type() == segments.type(),
            "nn::Documents: segments are {} and positions {}; both must be i32 [B, T]",
            to_string(segments.type()), to_string(positions.type()));
  }

  Value segments() const { return segments_; }    ///< of the tokens
  Value positions() const { return positions_; }  ///< of the tokens

 private:
  BuilderScope<Documents*, &Builder::documents, &Builder::set_documents> in_;
  Value segments_, positions_;
};

/// Positions of tokens [B, T, …]: 0, 1, …, i32 [T]; those of new tokens, i32 [B, T], while
/// `generate`'s steps are recorded; those in `Documents`, i32 [B, T].
inline Value positions(Value tokens) {
  if (const KeyValueCache* const cache = tokens.builder->cache()) return cache->positions();
  if (const Documents* const documents = tokens.builder->documents()) return documents->positions();
  return iota(tokens, {i32, {tokens.dim(1)}});
}

/// The tokens of x [B, T, C] that a head has to predict from: all, but while `generate`'s steps are
/// recorded each row's last one alone, [B, 1, C]. Optional: it saves logits that nobody reads.
inline Value needed_tokens(Value x) {
  const KeyValueCache* const cache = x.builder->cache();
  return cache ? cache->last(x) : x;
}

/// Options of `SelfAttention`.
struct SelfAttentionOptions {
  std::int64_t key_heads = 0;   ///< of grouped queries (Ainslie et al. 2023); 0: as many as heads
  bool causal = true;           ///< no position sees later ones
  double dropout = 0;           ///< rate, of the probabilities
  bool bias = true;             ///< of the four products
  std::int64_t head_width = 0;  ///< 0: width / heads
  std::int64_t window = 0;      ///< keys that a query sees, its own among them; 0: all before it
  std::optional<double> scale = {};  ///< of the products; default 1/sqrt(head width)
  double soft_cap = 0;               ///< of the scores (`AttentionOptions`); 0: none
  /// RMS norms of every head's queries and keys ahead of rotary positions (Qwen3, Gemma 3):
  /// parameters "query_norm.scale" and "key_norm.scale".
  std::optional<NormOptions> head_norm = {};
  std::optional<RotaryOptions> rotary = {};  ///< rotary positions of queries and keys
  std::int64_t rotary_width = 0;             ///< first elements of a head that are turned; 0: all
  KernelInitializer kernel = lecun_normal;   ///< of the four products
  std::optional<KernelInitializer> projection = {};  ///< of the last product; default: `kernel`
  std::optional<bool> projection_bias = {};          ///< of the last product; default: `bias`
  bool repeats = true;    ///< the gradient, bit for bit (`AttentionOptions`)
  std::string name = {};  ///< the layer's own; default: its position or kind (`Scope`)
};

/// Multi-head self-attention (Vaswani et al. 2017): x [B, T, C] → [B, T, C]. Its products are four
/// `Dense` layers, so that heads can be split as in Megatron-LM: "query", "key", "value", and the
/// "projection" back to C. Its kind is "attention".
class SelfAttention {
 public:
  /// Throws Error unless width, heads ≥ 1, heads divide the width or have one of their own, and key
  /// heads divide heads.
  SelfAttention(std::int64_t width, std::int64_t heads, SelfAttentionOptions options = {})
      : id_(options.name),
        heads_(heads),
        key_heads_(options.key_heads > 0 ? options.key_heads : heads),
        head_width_(options.head_width > 0 ? options.head_width
                    : heads > 0            ? width / heads
                                           : 0),
        options_(std::move(options)),
        query_(checked(width, heads, key_heads_, options_.head_width) * head_width_,
               dense("query")),
        key_(key_heads_ * head_width_, dense("key")),
        value_(key_heads_ * head_width_, dense("value")),
        projection_(width, {options_.projection_bias.value_or(options_.bias),
                            options_.projection.value_or(options_.kernel), "projection"}) {
    require(options_.rotary_width >= 0 && options_.rotary_width <= head_width_,
            "nn::SelfAttention: a rotary width of {}; heads are {} wide", options_.rotary_width,
            head_width_);
  }

  /// `key_mask`: u8 [B, T], 0 where a token is padding. With a `KeyValueCache`, x are new tokens,
  /// which see those in the cache, too. Throws Error if there is one, and the layer is not causal
  /// or given a mask.
  Value operator()(Value x, Value key_mask = {}) const {
    const Scope in(x, id_, kKind);
    const Heads h = heads(x);
    if (KeyValueCache* const cache = x.builder->cache()) {
      require(options_.causal,
              "nn::SelfAttention: a cache holds earlier tokens, but the layer sees later ones, "
              "too; make it causal");
      require(!key_mask, "nn::SelfAttention: a cache has no padding; call it without a key mask");
      return project(cache->attend(h.queries, h.keys, h.values, attention_options()));
    }
    AttentionOptions options = attention_options();
    options.causal = options_.causal;
    options.dropout = x.builder->training() ? options_.dropout : 0;
    options.key_mask = key_mask;
    if (const Documents* const documents = x.builder->documents())
      options.segments = documents->segments();
    options.repeats = options_.repeats;
    return project(attention(h.queries, h.keys, h.values, options));
  }

  /// The parts: attention(heads(x)…) and `project` make the layer.
  struct Heads {
    Value queries;       ///< [B, T, heads, head width]
    Value keys, values;  ///< [B, T, key heads, head width]
  };
  /// Queries, keys and values of x, [B, T, C], at their positions if these are rotary. Throws Error
  /// unless x has three dimensions.
  Heads heads(Value x) const {
    require(x.rank() == 3, "nn::SelfAttention: the input is {}; it must be [B, T, C]",
            to_string(x.type()));
    const Scope in(x, id_, kKind);
    // In statements of their own: C++ may evaluate arguments in any order.
    Heads h;
    h.queries = split(query_(x), heads_);
    h.keys = split(key_(x), key_heads_);
    h.values = split(value_(x), key_heads_);
    if (options_.head_norm) {
      h.queries = normalized(h.queries, "query_norm");
      h.keys = normalized(h.keys, "key_norm");
    }
    if (!options_.rotary) return h;
    const Value at = positions(x);
    h.queries = turned(h.queries, at);
    h.keys = turned(h.keys, at);
    return h;
  }
  /// The result of attention, [B, T, heads, head width], back to [B, T, C].
  Value project(Value attended) const {
    const Scope in(attended, id_, kKind);
    return projection_(reshape(attended, {attended.dim(0), attended.dim(1), heads_ * head_width_}));
  }
  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  static constexpr std::string_view kKind = "attention";
  /// The number of heads.
  static std::int64_t checked(std::int64_t width, std::int64_t heads, std::int64_t key_heads,
                              std::int64_t head_width) {
    require(width >= 1 && heads >= 1 && (head_width > 0 || width % heads == 0),
            "nn::SelfAttention: {} heads do not divide the width {}", heads, width);
    require(heads % key_heads == 0, "nn::SelfAttention: {} key heads do not divide {} heads",
            key_heads, heads);
    return heads;
  }
  /// Options that hold with a cache and without.
  AttentionOptions attention_options() const {
    return {.scale = options_.scale, .window = options_.window, .soft_cap = options_.soft_cap};
  }
  Value normalized(Value heads, const char* name) const {
    NormOptions options = *options_.head_norm;
    options.name = name;
    return RMSNorm(options)(heads);
  }
  /// Heads with their first elements at the positions.
  Value turned(Value heads, Value at) const {
    const std::int64_t width = options_.rotary_width;
    const RotaryOptions options = rotary_options(heads);
    if (width == 0 || width == head_width_) return rotary(heads, at, options);
    return concatenate(
        {rotary(slice(heads, 3, 0, width), at, options), slice(heads, 3, width, head_width_)});
  }
  /// LongRoPE's factors are those of the length of x [B, T, …] or of the cache, the same for all of
  /// its tokens.
  RotaryOptions rotary_options(Value x) const {
    RotaryOptions options = *options_.rotary;
    const KeyValueCache* const cache = x.builder->cache();
    const std::int64_t length = cache ? cache->length() : x.dim(1);
    if (options.scaling && !options.scaling->long_factors.empty() &&
        length > options.scaling->original_positions)
      options.scaling->factors = options.scaling->long_factors;
    return options;
  }
  DenseOptions dense(std::string name) const {
    return {options_.bias, options_.kernel, std::move(name)};
  }
  Value split(Value x, std::int64_t heads) const {
    return reshape(x, {x.dim(0), x.dim(1), heads, head_width_});
  }

  LayerId id_;
  std::int64_t heads_, key_heads_, head_width_;
  SelfAttentionOptions options_;
  Dense query_, key_, value_, projection_;
};

/// Options of `SwiGLU`.
struct SwiGLUOptions {
  KernelInitializer kernel = lecun_normal;  ///< of the products
  std::string name = {};              ///< the layer's own; default: its position or kind (`Scope`)
  Value (*activation)(Value) = silu;  ///< of the gate; gelu makes it GeGLU (Gemma)
};

/// down(silu(gate(x)) · up(x)) (Shazeer 2020), the feed-forward layer of Llama: three `Dense`
/// layers without bias, "gate", "up" and "down", [..., C] → [..., C].
class SwiGLU {
 public:
  /// Throws Error if a width is below 1.
  SwiGLU(std::int64_t width, std::int64_t hidden, const SwiGLUOptions& options = {})
      : id_(options.name),
        gate_(hidden, {false, options.kernel, "gate"}),
        up_(hidden, {false, options.kernel, "up"}),
        down_(width, {false, options.kernel, "down"}),
        activation_(options.activation) {}

  Value operator()(Value x) const {
    const Scope in(x, id_, "swiglu");
    const Value gate = activation_(gate_(x));
    return down_(gate * up_(x));
  }
  const LayerId& id() const { return id_; }  ///< of the layer

 private:
  LayerId id_;
  Dense gate_, up_, down_;
  Value (*activation_)(Value);
};

}  // namespace alpa::nn
#pragma GCC visibility pop
