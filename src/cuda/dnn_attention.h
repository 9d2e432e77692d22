#pragma once
/// Attention as graphs of operations of cuDNN, which its engines recognise as a whole: the order
/// and the types of the operations are those that cuDNN's frontend library describes.
#include <limits>

#include "dnn_plans.h"
#include "kernels/cuda/attention_plan.h"

namespace alpa::cuda {

/// Numbers of the tensors that are bound to memory, and of those passed by value.
enum DnnAttentionTensor : std::int64_t {
  kDnnQ = 1,
  kDnnK,
  kDnnV,
  kDnnO,
  kDnnLse,
  kDnnDo,
  kDnnDelta,
  kDnnDq,
  kDnnDk,
  kDnnDv,
  kDnnSums,     ///< dq in f32, if its sums may have any order
  kDnnScale,    ///< f32, by value, as all that follow
  kDnnHidden,   ///< f32: the product of a key that is not seen
  kDnnOne,      ///< f32
  kDnnKeys,     ///< i32
  kDnnQueries,  ///< i32
};

/// The numbers by value of a piece, which `tensors` point to.
struct DnnAttentionNumbers {
  explicit DnnAttentionNumbers(const AttentionPiece& piece);
  DnnAttentionNumbers(const DnnAttentionNumbers&) = delete;

  float scale, hidden = -std::numeric_limits<float>::infinity(), one = 1;
  std::int32_t keys, queries;
  std::vector<std::pair<std::int64_t, void*>> tensors;
};

/// q, o, do and dq [B, T, H, D], k, v, dk and dv [B, S, K, D], lse and delta f32 [B, H, T], of
/// which the piece is a part; delta is scratch of the gradient, as are sums [B, H, T, D]. Throws
/// Error with cuDNN's reason if it refuses a description.
std::vector<DnnDescriptor> dnn_attention(const AttentionPiece& piece);

inline constexpr std::string_view kAttentionRuns = "attention runs";  ///< for messages

/// Limits of cuDNN, from its frontend: 9.10.0 and 9.10.1 compute attention wrongly, and up to 9.15
/// the gradient needs a padding mask unless 128 divides the keys. Before 9.10 a score that is not
/// seen must be finite, and before 9.9 there are limits of other kinds.
inline constexpr std::size_t kLeastAttentionVersion = 91600;

/// The same, to be computed. `numbers` must outlive it.
DnnProblem attention_problem(const AttentionPiece& piece, std::int64_t workspace_bytes,
                             const DnnAttentionNumbers& numbers);

}  // namespace alpa::cuda
