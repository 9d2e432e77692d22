#pragma once
/// BERT (Devlin et al. 2019), which predicts tokens that are hidden in the text.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "alpa/models/encoder.h"
#include "alpa/models/tied_head.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// What BERT makes of the encoder's result [B, T, C].
enum class BertHead : std::uint8_t {
  hidden_tokens,  ///< logits of hidden tokens [B, T, vocabulary]
  states,         ///< that result itself
  classes,        ///< logits of the row's classes [B, classes]
};

/// Sizes of BERT.
struct BertOptions {
  EncoderOptions encoder;                           ///< with `norm_first` false
  std::int64_t sequence = 512, vocabulary = 30522;  ///< most tokens of a row; number of tokens
  std::int64_t token_types = 0;             ///< kinds of tokens, as of two sentences; 0: not told
  BertHead head = BertHead::hidden_tokens;  ///< what the model predicts
  std::int64_t classes = 2;                 ///< of head `classes`
  bool pooler = false;                      ///< head `states` has the parameters of `pooled`, too
};

/// A published size, by its name.
struct BertSize {
  std::string_view name;               ///< as the paper calls it
  std::int64_t layers, hidden, heads;  ///< blocks, width, heads
};
/// The sizes of the paper, and one for trials.
inline constexpr std::array<BertSize, 3> kBertSizes{
    {{"tiny", 2, 64, 4}, {"base", 12, 768, 12}, {"large", 24, 1024, 16}}};

/// Embeddings, an encoder, and a head.
class Bert {
 public:
  /// Labels of tokens that are not to be predicted.
  static constexpr std::int64_t kNotHidden = -1;

  /// A model of these sizes.
  explicit Bert(const BertOptions& o)
      : options_(o),
        tokens_(o.vocabulary, o.encoder.hidden, {.dtype = o.encoder.dtype, .name = "tokens"}),
        positions_(o.sequence, o.encoder.hidden, {.dtype = o.encoder.dtype, .name = "positions"}),
        types_(std::max<std::int64_t>(o.token_types, 1), o.encoder.hidden,
               {.dtype = o.encoder.dtype, .name = "token_types"}),
        first_norm_(encoder_norm(o.encoder, "embedding_norm")),
        dropout_(o.encoder.dropout),
        encoder_(o.encoder),
        transform_(o.encoder.hidden, {.kernel = EncoderBlock::kernel(), .name = "transform"}),
        gelu_(nn::GELU{o.encoder.exact_gelu}),
        last_norm_(encoder_norm(o.encoder, "transform_norm")),
        head_(tokens_, o.vocabulary),
        pooler_(o.encoder.hidden, {.kernel = EncoderBlock::kernel(), .name = "pooler"}),
        classifier_(o.classes, {.kernel = EncoderBlock::kernel(), .name = "classifier"}) {}

  /// The sizes and the head it was made with.
  const BertOptions& options() const { return options_; }

  /// Tokens i32 [B, T] → what the head makes of them. `key_mask`: u8 [B, T], 0 at padding;
  /// `types`: i32 [B, T], default all 0. Throws Error if there are types but no embedding of them.
  Value operator()(Value tokens, Value key_mask = {}, Value types = {}) const {
    const Value states = encoder_(dropout_(first_norm_(embed(tokens, types))), key_mask);
    if (options_.head == BertHead::hidden_tokens)
      return head_(last_norm_(gelu_(transform_(states))));
    if (options_.head == BertHead::classes) return classifier_(dropout_(pooled(states)));
    if (options_.pooler) pooled(states);
    return states;
  }

  /// The encoder's result [B, T, C] → the row's vector [B, C], of its first token.
  Value pooled(Value states) const {
    return tanh(pooler_(reshape(slice(states, 1, 0, 1), {states.dim(0), states.dim(2)})));
  }

  /// Mean cross-entropy of the hidden tokens: labels i32 [B, T], kNotHidden elsewhere.
  LossAndMetrics loss(Value tokens, Value labels) const {
    return nn::counted_cross_entropy((*this)(tokens), labels, kNotHidden);
  }

 private:
  Value embed(Value tokens, Value types) const {
    const std::int64_t kinds = options_.token_types;
    require(kinds > 0 || !types, "models::Bert: tokens have types, but `token_types` is 0");
    require(tokens.rank() == 2 && tokens.dim(1) <= options_.sequence,
            "models::Bert: tokens are {}; they must be [B, T] with T at most {}",
            to_string(tokens.type()), options_.sequence);
    const Value words = tokens_(tokens);
    const Value x = words + positions_(iota(tokens, {i32, {tokens.dim(1)}}));
    if (kinds == 0) return x;
    return x + (types ? types_(types) : slice(types_.table(*x.builder), 0, 0, 1));
  }

  BertOptions options_;
  nn::Embedding tokens_, positions_, types_;
  nn::LayerNorm first_norm_;
  nn::Dropout dropout_;
  Encoder encoder_;
  nn::Dense transform_;
  nn::GELU gelu_;
  nn::LayerNorm last_norm_;
  TiedHead head_;
  nn::Dense pooler_, classifier_;
};

}  // namespace alpa::models
#pragma GCC visibility pop
