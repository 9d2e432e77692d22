#pragma once
/// Attention by single operators, as systems without a fused kernel compute it.
#include <alpa/alpa.h>

#include <cmath>

namespace models {

/// attention(q, k, v) [B, T, N, D] with causal scores: two products and a softmax, whose T x T
/// scores are in memory.
inline alpa::Value composed_attention(alpa::Value q, alpa::Value k, alpa::Value v) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(3)));
  const alpa::Value scores = alpa::einsum("btnd,bsnd->bnts", q * scale, k);
  const alpa::Value places = iota(q, {alpa::i32, {q.dim(1)}});
  const alpa::Value seen = le(reshape(places, {1, 1, 1, q.dim(1)}),
                              reshape(places, {1, 1, q.dim(1), 1}));
  const alpa::Value causal = where(seen, scores, -3e4);
  return alpa::einsum("bnts,bsnd->btnd", alpa::softmax(causal), v);
}

}  // namespace models
