#pragma once
/// A call of `attention`, `attention_grad` or `cached_attention`, as CPU and CUDA kernels see it.
#include <cstdint>

#include "alpa/base/dtype.h"

namespace alpa {
struct KernelCall;
struct KernelTensor;
}  // namespace alpa

namespace alpa::kernels {

/// Widest head.
inline constexpr std::int64_t kMostHeadWidth = 256;

/// What hides keys beside positions: tensors of a call of `attention` or of its gradient.
struct HiddenKeys {
  const std::uint8_t* mask = nullptr;  ///< [B, S], 0 hides; null: no mask
  /// [B, T] and [B, S]: keys of other numbers than a query's are hidden; null: none are.
  const std::int32_t *query_segments = nullptr, *key_segments = nullptr;
};
/// Those of the operands from `first` on.
HiddenKeys hidden_keys(const KernelCall& call, std::size_t first);

/// A part of q [B, T, H, D], k and v [B, S, K, D].
struct AttentionShape {
  DType dtype = DType::f32;
  std::int64_t batch = 1, queries = 1, heads = 1, keys = 1, key_heads = 1, width = 1;
  std::int64_t group = 1;  ///< query heads that read one key head
  double scale = 1;
  double dropout = 0;
  std::uint64_t stream = 0;  ///< of dropout
  /// Query t of this part sees keys below t + visible, masks apart; not causal: all keys.
  std::int64_t visible = 1;
  /// Query t sees the last `window` of those keys alone; 0: all of them.
  std::int64_t window = 0;
  double soft_cap = 0;     ///< scores s become soft_cap · tanh(s / soft_cap); 0: as they are
  double cap_inverse = 0;  ///< scale / soft_cap: of products of q and k
  /// Of a cache: the position of a row of the batch, its element of operand 3, adds to `visible`.
  bool cached = false;
  bool repeats = true;  ///< the gradient has the same bits in every run
  /// In the order in which dropout draws, probability (row, head, t, key) of this part is number
  /// draws + row · draws_of_row + head · draws_of_head + t · keys + key.
  std::int64_t draws = 0, draws_of_row = 0, draws_of_head = 0;
};

/// `q`: that operand; keys are whole on every device.
AttentionShape attention_shape(const KernelCall& call, const KernelTensor& q,
                               const KernelTensor& k);

/// Of `cached_attention`.
AttentionShape cached_attention_shape(const KernelCall& call);

}  // namespace alpa::kernels
