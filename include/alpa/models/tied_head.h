#pragma once
/// The head of language models: logits by the table of the embedding (Press and Wolf 2017).
#include "alpa/alpa.h"
#pragma GCC visibility push(default)

namespace alpa::models {

/// Logits [B, T, vocabulary] of x [B, T, C]: its products with the rows of the embedding's table,
/// plus a learnt number per token, parameter "head.bias", if there is a bias.
class TiedHead {
 public:
  /// The head of an embedding of `vocabulary` tokens, with a bias or without.
  TiedHead(nn::Embedding tokens, std::int64_t vocabulary, bool bias = true)
      : tokens_(std::move(tokens)), vocabulary_(vocabulary), bias_(bias) {}

  /// x [B, T, C] → logits [B, T, vocabulary].
  Value operator()(Value x) const {
    const Value logits = einsum("btc,vc->btv", x, tokens_.table(*x.builder));
    if (!bias_) return logits;
    const nn::Scope in(x, id_, "head");
    return logits + in.parameter("bias", {vocabulary_}, zeros);
  }

 private:
  nn::Embedding tokens_;
  std::int64_t vocabulary_;
  bool bias_;
  nn::LayerId id_{"head"};
};

}  // namespace alpa::models
#pragma GCC visibility pop
