#pragma once
/// BERT (Devlin et al. 2019), which predicts tokens that are hidden in the text.
#include <array>
#include <string_view>

#include "models/encoder.h"
#include "models/tied_head.h"

namespace models {

struct BertOptions {
  EncoderOptions encoder;
  std::int64_t sequence = 512, vocabulary = 30522;
};

struct BertSize {
  std::string_view name;
  std::int64_t layers, hidden, heads;
};
/// The sizes of the paper, and one for trials.
inline constexpr std::array<BertSize, 3> kBertSizes{
    {{"tiny", 2, 64, 4}, {"base", 12, 768, 12}, {"large", 24, 1024, 16}}};

class Bert {
 public:
  /// Labels of tokens that are not to be predicted.
  static constexpr std::int64_t kNotHidden = -1;

  explicit Bert(const BertOptions& o)
      : tokens_(o.vocabulary, o.encoder.hidden, {.dtype = o.encoder.dtype, .name = "tokens"}),
        positions_(o.sequence, o.encoder.hidden, {.dtype = o.encoder.dtype, .name = "positions"}),
        dropout_(o.encoder.dropout),
        encoder_(o.encoder),
        transform_(o.encoder.hidden, {.kernel = EncoderBlock::kernel(), .name = "transform"}),
        head_(tokens_, o.vocabulary) {}

  /// Tokens i32 [B, T] → logits [B, T, vocabulary].
  alpa::Value operator()(alpa::Value tokens, alpa::Value key_mask = {}) const {
    const alpa::Value words = tokens_(tokens);
    const alpa::Value x =
        first_norm_(words + positions_(iota(tokens, {alpa::i32, {tokens.dim(1)}})));
    const alpa::Value seen = encoder_(dropout_(x), key_mask);
    return head_(last_norm_(alpa::gelu(transform_(seen))));
  }

  /// Mean cross-entropy of the hidden tokens: labels i32 [B, T], kNotHidden elsewhere.
  alpa::LossAndMetrics loss(alpa::Value tokens, alpa::Value labels) const {
    return alpa::nn::cross_entropy((*this)(tokens), labels, {.ignored_label = kNotHidden});
  }

 private:
  alpa::nn::Embedding tokens_, positions_;
  alpa::nn::LayerNorm first_norm_{{.name = "embedding_norm"}},
      last_norm_{{.name = "transform_norm"}};
  alpa::nn::Dropout dropout_;
  Encoder encoder_;
  alpa::nn::Dense transform_;
  TiedHead head_;
};

}  // namespace models
