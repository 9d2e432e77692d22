#pragma once
/// The head of language models: logits by the table of the embedding.
#include <alpa/alpa.h>

namespace models {

/// Logits [B, T, vocabulary] of x [B, T, C]: its products with the rows of the embedding's table,
/// plus a learnt number per token, parameter "head.bias", if there is a bias.
class TiedHead {
 public:
  TiedHead(alpa::nn::Embedding tokens, std::int64_t vocabulary, bool bias = true)
      : tokens_(std::move(tokens)), vocabulary_(vocabulary), bias_(bias) {}

  alpa::Value operator()(alpa::Value x) const {
    const alpa::Value logits = alpa::einsum("btc,vc->btv", x, tokens_.table(*x.builder));
    if (!bias_) return logits;
    const alpa::nn::Scope in(x, id_, "head");
    return logits + in.parameter("bias", {vocabulary_}, alpa::zeros);
  }

 private:
  alpa::nn::Embedding tokens_;
  std::int64_t vocabulary_;
  bool bias_;
  alpa::nn::LayerId id_{"head"};
};

}  // namespace models
