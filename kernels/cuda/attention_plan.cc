// kernels/cuda/attention_plan.cc — attention as cuDNN takes it, and the scratch memory it needs
#include "kernels/cuda/attention_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cuda/convolution_plan.h"
#include "kernels/cuda/rounded_up.h"

namespace alpa::cuda {
namespace {

using kernels::AttentionShape;

constexpr std::int64_t kMostDnnWidth = 128;
/// A piece of one key head may need more, up to kMostOfKeyHead.
constexpr std::int64_t kMostWorkspace = std::int64_t{512} << 20;
constexpr std::int64_t kMostOfKeyHead = std::int64_t{2} << 30;

/// dq of a query head in one row of the batch in f32, if it is summed in any order.
std::int64_t sum_bytes(const AttentionShape& s) { return s.repeats ? 0 : 4 * s.queries * s.width; }

/// Of the gradient of a query head in one row of the batch: the products' gradients in 16 bits, or
/// dq twice (once for engines before Hopper), and with groups dk and dv of every query head.
std::int64_t head_bytes(const AttentionShape& s) {
  const std::int64_t products = s.repeats ? rounded_up(s.queries, 64) * rounded_up(s.keys, 128)
                                          : 2 * rounded_up(s.queries, 8) * s.width;
  const std::int64_t keys = s.group > 1 ? 2 * rounded_up(s.keys, 128) * s.width : 0;
  return 2 * (products + keys) + sum_bytes(s);
}

std::int64_t largest_divisor(std::int64_t x, std::int64_t most) {
  std::int64_t divisor = std::clamp<std::int64_t>(most, 1, x);
  while (x % divisor != 0) --divisor;
  return divisor;
}

bool has_extents(const AttentionShape& s) {
  return s.batch > 0 && s.queries > 0 && s.heads > 0 && s.keys > 0 && s.width > 0;
}

bool sees_all(const AttentionShape& s) { return s.visible >= s.keys; }
bool starts_at_first_key(const AttentionShape& s) { return s.visible == 1; }
bool ends_at_last_key(const AttentionShape& s) {
  return s.visible == s.keys - s.queries + 1 && s.visible >= 1;
}

}  // namespace

AttentionLaunch attention_launch(const KernelCall& call) {
  const bool is_gradient = call.outputs.size() == 3;  // dq, dk and dv
  const std::size_t q = is_gradient ? 1 : 0, operands = is_gradient ? 6 : 3;
  return {kernels::attention_shape(call, call.inputs.at(q), call.inputs.at(q + 1)), is_gradient,
          call.inputs.size() > operands && call.inputs[operands].type.dtype == u8,
          call.inputs.size() > operands + 1};
}

std::string dnn_refusal(const AttentionLaunch& launch) {
  const AttentionShape& s = launch.shape;
  if (s.dtype != bf16 && s.dtype != f16)
    return fmt::format("cuDNN's attention is in bf16 and f16, not in {}", name_of(s.dtype));
  if (launch.has_mask) return "cuDNN's attention has no key mask";
  if (launch.has_segments) return "cuDNN is not asked for attention with segments";
  if (s.window > 0) return "cuDNN is not asked for attention with a window";
  if (s.soft_cap > 0) return "cuDNN is not asked for attention with a soft cap";
  if (s.dropout > 0) return "cuDNN's attention draws other numbers for dropout";
  if (s.width % 8 != 0 || s.width > kMostDnnWidth)
    return fmt::format("heads are {} wide, not a multiple of 8 up to {}", s.width, kMostDnnWidth);
  if (!sees_all(s) && !starts_at_first_key(s) && !ends_at_last_key(s))
    return "the diagonal neither starts at the first key nor ends at the last";
  if (launch.is_gradient && s.queries == 1 && s.keys == 1)
    return "cuDNN has no gradient of one query and one key";
  if (launch.is_gradient && head_bytes(s) * s.group > kMostOfKeyHead)
    return fmt::format("the gradient of a key head needs {} bytes of workspace, more than {}",
                       head_bytes(s) * s.group, kMostOfKeyHead);
  return "";
}

bool suits_dnn(const AttentionLaunch& launch) {
  return has_extents(launch.shape) && dnn_refusal(launch).empty();
}

AttentionPiece attention_piece(const AttentionLaunch& launch) {
  invariant(suits_dnn(launch), "attention that cuDNN is not asked for");
  AttentionPiece piece{launch.shape, launch.is_gradient, launch.shape.heads,
                       launch.shape.key_heads};
  if (!launch.is_gradient) return piece;
  AttentionShape& s = piece.shape;
  const std::int64_t key_heads = kMostWorkspace / (head_bytes(s) * s.group);
  s.batch = largest_divisor(s.batch, key_heads / s.key_heads);
  if (key_heads < s.key_heads) s.key_heads = largest_divisor(s.key_heads, key_heads);
  s.heads = s.key_heads * s.group;
  return piece;
}

std::string to_string(const AttentionPiece& piece) {
  const AttentionShape& s = piece.shape;
  const char* const seen = sees_all(s)              ? ""
                           : starts_at_first_key(s) ? " causal from the first key"
                                                    : " causal to the last key";
  return fmt::format("attention{} {} q {},{},{},{} of {} k {},{} of {}{}{}",
                     piece.is_gradient ? "_grad" : "", name_of(s.dtype), s.batch, s.queries,
                     s.heads, s.width, piece.row_heads, s.keys, s.key_heads, piece.row_key_heads,
                     seen, piece.is_gradient && !s.repeats ? " in any order" : "");
}

AttentionScratch attention_scratch(const AttentionLaunch& launch) {
  const AttentionShape& s = launch.shape;
  AttentionScratch scratch;
  if (launch.is_gradient)
    scratch.workspace = rounded_up(
        s.batch * s.heads * s.queries * static_cast<std::int64_t>(s.dtype == f64 ? 8 : 4),
        kDnnAlignment);
  if (suits_dnn(launch)) {
    const AttentionShape piece = attention_piece(launch).shape;
    const std::int64_t heads = launch.is_gradient ? piece.batch * piece.heads : 0;
    scratch.sums = scratch.workspace;
    scratch.workspace += rounded_up(heads * sum_bytes(s), kDnnAlignment);
    scratch.workspace_bytes = kDnnAlignment + heads * (head_bytes(s) - sum_bytes(s));
  }
  const std::int64_t bytes = scratch.workspace + scratch.workspace_bytes;
  scratch.bytes = bytes == 0 ? 0 : bytes + kDnnAlignment;
  return scratch;
}

}  // namespace alpa::cuda
