#pragma once
/// A call of `attention` or `attention_grad`, as CPU and CUDA kernels see it.
#include <cstdint>

#include "alpa/base/dtype.h"

namespace alpa {
struct KernelCall;
struct KernelTensor;
}  // namespace alpa

namespace alpa::kernels {

/// Widest head.
inline constexpr std::int64_t kMostHeadWidth = 256;

/// A part of q [B, T, H, D], k and v [B, S, K, D].
struct AttentionShape {
  DType dtype = DType::f32;
  std::int64_t batch = 1, queries = 1, heads = 1, keys = 1, key_heads = 1, width = 1;
  bool causal = false;
  double scale = 1;
  double dropout = 0;
  std::uint64_t stream = 0;  ///< of dropout
  /// Query t of this part sees keys below t + visible.
  std::int64_t visible = 1;
  /// Indices in the whole tensor, for dropout: of the first row, query and head, and the number of
  /// queries and heads.
  std::int64_t first_row = 0, first_query = 0, first_head = 0, all_queries = 1, all_heads = 1;

  /// Query heads that read one key head.
  constexpr std::int64_t group() const { return key_heads == 0 ? 1 : heads / key_heads; }
  /// Number of keys that query t sees, masks apart.
  constexpr std::int64_t seen(std::int64_t t) const {
    if (!causal) return keys;
    const std::int64_t n = t + visible;
    return n < 0 ? 0 : n < keys ? n : keys;
  }
  /// Index of the first probability of a query in the order in which dropout draws.
  constexpr std::int64_t first_draw(std::int64_t row, std::int64_t head, std::int64_t t) const {
    return (((first_row + row) * all_heads + first_head + head) * all_queries + first_query + t) *
           keys;
  }
};

/// `q`: that operand; keys are whole on every device.
AttentionShape attention_shape(const KernelCall& call, const KernelTensor& q,
                               const KernelTensor& k);

}  // namespace alpa::kernels
