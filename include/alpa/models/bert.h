#pragma once
/// BERT (Devlin et al. 2019), which predicts tokens that are hidden in the text.
#include <array>
#include <string_view>

#include "alpa/models/encoder.h"
#include "alpa/models/tied_head.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Sizes of BERT.
struct BertOptions {
  EncoderOptions encoder;                           ///< with `norm_first` false
  std::int64_t sequence = 512, vocabulary = 30522;  ///< most tokens of a row; number of tokens
};

/// A published size, by its name.
struct BertSize {
  std::string_view name;               ///< as the paper calls it
  std::int64_t layers, hidden, heads;  ///< blocks, width, heads
};
/// The sizes of the paper, and one for trials.
inline constexpr std::array<BertSize, 3> kBertSizes{
    {{"tiny", 2, 64, 4}, {"base", 12, 768, 12}, {"large", 24, 1024, 16}}};

/// Embeddings, an encoder, and a head that predicts the hidden tokens.
class Bert {
 public:
  /// Labels of tokens that are not to be predicted.
  static constexpr std::int64_t kNotHidden = -1;

  /// A model of these sizes.
  explicit Bert(const BertOptions& o)
      : tokens_(o.vocabulary, o.encoder.hidden, {.dtype = o.encoder.dtype, .name = "tokens"}),
        positions_(o.sequence, o.encoder.hidden, {.dtype = o.encoder.dtype, .name = "positions"}),
        dropout_(o.encoder.dropout),
        encoder_(o.encoder),
        transform_(o.encoder.hidden, {.kernel = EncoderBlock::kernel(), .name = "transform"}),
        head_(tokens_, o.vocabulary) {}

  /// Tokens i32 [B, T] → logits [B, T, vocabulary]; `key_mask`: u8 [B, T], 0 at padding.
  Value operator()(Value tokens, Value key_mask = {}) const {
    const Value words = tokens_(tokens);
    const Value x = first_norm_(words + positions_(iota(tokens, {i32, {tokens.dim(1)}})));
    const Value seen = encoder_(dropout_(x), key_mask);
    return head_(last_norm_(gelu(transform_(seen))));
  }

  /// Mean cross-entropy of the hidden tokens: labels i32 [B, T], kNotHidden elsewhere.
  LossAndMetrics loss(Value tokens, Value labels) const {
    return nn::counted_cross_entropy((*this)(tokens), labels, kNotHidden);
  }

 private:
  nn::Embedding tokens_, positions_;
  nn::LayerNorm first_norm_{{.name = "embedding_norm"}}, last_norm_{{.name = "transform_norm"}};
  nn::Dropout dropout_;
  Encoder encoder_;
  nn::Dense transform_;
  TiedHead head_;
};

}  // namespace alpa::models
#pragma GCC visibility pop
