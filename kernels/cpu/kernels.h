#pragma once
/// The CPU backend's kernels, one `KernelDef` per operator. Tensors are dense row-major; any extent
/// may be 0, in which case nothing is read or written. Element types are f32, bf16, f16, f64, i32
/// and u8 unless stated otherwise; bf16 and f16 are computed in f32. Results do not depend on the
/// number of threads. With `KernelCall::sums`, results in f32 and i32 depend on no local extent of
/// a letter that is not summed, either. Thread rule: a `KernelCall` belongs to one device thread.
#include <memory>

#include "kernels/cpu/in_chunks.h"
#include "kernels/reduction.h"
#include "src/tensor/kernel.h"

namespace alpa::cpu {

namespace detail {
std::shared_ptr<const void> prepare_elementwise(const KernelCall& call, ElementwiseOp op);
void run_elementwise(const KernelCall& call);
template <ElementwiseOp op>
std::shared_ptr<const void> prepare_one(const KernelCall& call) {
  return prepare_elementwise(call, op);
}
std::shared_ptr<const void> prepare_reduce(const KernelCall& call, ReduceOp op);
void run_reduce(const KernelCall& call);
std::int64_t reduce_workspace(const KernelCall& call);
template <ReduceOp op>
std::shared_ptr<const void> prepare_reduction(const KernelCall& call) {
  return prepare_reduce(call, op);
}
template <ReduceOp op>
inline constexpr KernelDef reduce_at_once{run_reduce, prepare_reduction<op>, reduce_workspace};
}  // namespace detail

/// Single elementwise operator: `.cpu = &cpu::elementwise<ElementwiseOp::add>`. No attributes.
/// Inputs broadcast to the result's shape as in NumPy: dimensions aligned from the last one, extent
/// 1 or equal. Comparisons give u8 0 or 1 (or any type); where takes (condition, a, b), the
/// condition of any type. May run in place on an input of the result's type.
template <ElementwiseOp op>
inline constexpr KernelDef elementwise{detail::run_elementwise, detail::prepare_one<op>, nullptr};

/// x → x in the result's element type. No attributes.
extern const KernelDef cast;

/// Several elementwise steps in one pass: the attributes of `ElementwiseProgram`
/// (src/tensor/elementwise_program.h). Every result has the same shape; inputs broadcast to it as
/// for single operators or by attribute "dims" (see there). In place.
extern const KernelDef fused;

/// (x, y) → z, attribute "equation" such as "bik,bkj->bij": one letter per dimension, each at most
/// once per tensor. Letters of both inputs and the result are batch, of both inputs only are
/// summed, of one input only and not of the result are summed too.
extern const KernelDef einsum;

/// (x, y[, bias or kept]) → (z[, kept or sums]): `einsum` and what attribute "epilogue"
/// (kernels/cpu/epilogue.h) says, one after the other. bias has the result's last dimensions; kept
/// bits are u8 with an eighth of its last dimension.
extern const KernelDef einsum_epilogue;

/// (x, y…[, bias…][, addend…]) → (z…[, sums…]): several einsum_epilogue of one x
/// (kernels/plan/einsum_group.h), one after another.
extern const KernelDef einsum_group;

/// (x f32 [..., K], quantised kernel u8 [N, K / 32, bytes of a block] (quantized_block.h)) → y f32
/// [..., N], x times the kernel's transpose. `_grad`: (dy [..., N], kernel) → dx [..., K].
extern const KernelDef quantized_matmul, quantized_matmul_grad;

/// x → x reduced over the dimensions "axes" (integers, ascending), which disappear: sum, or
/// maximum, which is NaN if one element is. Of nothing: the neutral element (sum: 0; max:
/// -infinity, or the type's lowest).
template <ReduceOp op>
inline constexpr KernelDef reduce = in_chunks<detail::reduce_at_once<op>>;

/// x → y with y's dimension d being x's dimension permutation[d] (attribute "permutation",
/// integers).
extern const KernelDef transpose;

/// x → the same elements in the same order under the result's shape. No
/// attributes. In place: does nothing.
extern const KernelDef reshape;

/// x → y: attribute "dims" (integers, ascending) gives the dimension of y that each dimension of x
/// becomes; there x's extent is 1 or y's. Other dimensions of y repeat x.
extern const KernelDef broadcast;

/// x → its elements "begin", "begin" + "stride", … before "end" of dimension "axis" (integers).
extern const KernelDef slice;

/// x → y: along dimension "axis" "before" elements of the real "value", then x's with "interior" of
/// them after each but the last, then "after".
extern const KernelDef pad;

/// (x, …) → the inputs one behind the other along dimension "axis".
extern const KernelDef concatenate;

/// (x, ids) → y[…, j, …] = x[…, ids[…, j, …], …] along dimension "axis", of which x may hold some
/// elements: ids of others give 0. Throws Error if an id is outside of the whole dimension.
/// Floating types, ids i32.
extern const KernelDef take_along_axis;

/// (dy, ids) → dx, whose element e along "axis" is the sum of dy's with id e in their order,
/// carried in f32 at least. Held elements and wrong ids as for `take_along_axis`.
extern const KernelDef take_along_axis_grad;

/// x → y_i = x_0 + … + x_i along dimension "axis", carried in double; integers "exclusive" (without
/// x_i), "reverse" (from the end). Any type but u8.
extern const KernelDef cumulative_sum;

/// x → i32 index of the first element in the order of kernels/order.h, descending, along "axis".
extern const KernelDef argmax;

/// x → (values, i32 indices) of the first "k" elements of the last dimension in the order of
/// kernels/order.h; integer "descending".
extern const KernelDef top_k;

/// () → every element is the real attribute "value".
extern const KernelDef constant;

/// () → the element's index in the whole tensor along dimension "axis" (integer).
extern const KernelDef iota;

/// () → normal numbers with mean "a" and standard deviation "b" (reals). Philox4x32-10 on (seed of
/// the step context, integer attribute "stream"; element index in the whole tensor, step,
/// micro-batch): the same number however the tensor is split.
extern const KernelDef random_normal;

/// () → uniform numbers between "a" and "b", drawn like `random_normal`.
extern const KernelDef random_uniform;

/// x [..., C] → (Σ x, Σ x²) over all dimensions but the last: [C], f32 or of f64 f64, carried in
/// double. Floating types.
extern const KernelDef channel_sums;

/// (x, y), both [..., C] → (Σ x, Σ x·y), as `channel_sums`.
extern const KernelDef channel_products;

/// (x, scale, bias) → (y, mean, rstd), real attribute "epsilon": over the last dimension mean, rstd
/// = 1 / sqrt(variance + epsilon) and y = (x - mean)·rstd·scale + bias. Floating types; mean and
/// rstd are f32, of f64 f64. The variance is taken of differences from the mean.
extern const KernelDef layer_norm;

/// (dy, x, scale, mean, rstd) → (dx, dscale, dbias): the gradients of
/// `layer_norm` that arrive through y.
extern const KernelDef layer_norm_grad;

/// (x, scale) → (y, rstd), real "epsilon": rstd = 1 / sqrt(mean of x² + epsilon) over the last
/// dimension, y = x·rstd·scale. Types as for `layer_norm`.
extern const KernelDef rms_norm;

/// (dy, x, scale, rstd) → (dx, dscale): the gradients of `rms_norm` that arrive through y.
extern const KernelDef rms_norm_grad;

/// x → x / (1 - rate) where a uniform number, drawn like `random_uniform` with integer "stream", is
/// at least the real "rate", else 0. In place.
extern const KernelDef dropout;

/// (x [B, T, H, D], positions i32 [T] or [B, T]) → x with pair i of every head turned by position ·
/// base^(-2i/D): real "base", integers "interleaved" (pairs of neighbours instead of halves) and
/// "backward" (turns the other way). In place.
extern const KernelDef rotary;

/// (q [B, T, H, D], k and v [B, S, K, D], maybe mask u8 [B, S]) → (y like q, lse [B, H, T]): y =
/// softmax(scale · q kᵀ) v of every head, lse the logarithm of its sums of exponentials, f32 or of
/// f64 f64. Integer "causal", real "scale"; reals "dropout" and integer "stream" of probabilities.
extern const KernelDef attention;

/// (dy, q, k, v, y, lse, maybe mask) → (dq, dk, dv), where y and lse are the results of attention.
extern const KernelDef attention_grad;

/// (q, k, v, positions i32 [B]) → y as of `attention`: query t of row b sees the keys up to
/// positions[b] + t. No others are read.
extern const KernelDef cached_attention;

/// (x [B, S, ...], rows [B, T, ...], positions i32 [B]) → x with rows[b, t] at [b, positions[b] +
/// t]; rows outside of [0, S) are left out. Any types. In place on x: then only rows are moved.
extern const KernelDef write_rows;

/// (table, ids) → rows of the table, which may hold some rows of the whole one: ids in others give
/// zeros. Throws Error if an id is outside of the whole table. Floating types, ids i32.
extern const KernelDef embedding;

/// (dy, ids) → dtable, whose row r is the sum of the rows of dy with id r, added in their order in
/// double. Held rows and wrong ids as for `embedding`.
extern const KernelDef embedding_grad;

/// Tokens by index to places of experts and back. places i32 [G, S, K]: expert · C + place of each
/// of a token's K choices, negative for none. [E, G, C, M] may have some of the experts; choices of
/// others are left out. Throws Error for a place that no expert has. Floating types; weights and
/// products are f32, of f64 f64. (x [G, S, M], places, maybe weights [G, S, K]) → [E, G, C, M], the
/// sum of weight · x of each place, in their order.
extern const KernelDef dispatch;
/// ([E, G, C, M], places, maybe weights) → [G, S, M], of each token the sum over its choices.
extern const KernelDef combine;
/// (x [G, S, M], places, [E, G, C, M]) → [G, S, K], Σ_m of their products, carried in double.
extern const KernelDef expert_products;

/// (x [..., V], labels i32 [...]) → (log Σ exp(x), Σ target x) over the held part of V, f32 or of
/// f64 f64; -∞ and 0 if it is empty. target = (1 - smoothing) · [v = label] + smoothing / V, real
/// "smoothing", V that of the whole x; a label outside of [0, V) is that of no element.
extern const KernelDef cross_entropy;
/// (x, labels, lse, dlse, dtarget) → dx = exp(x - lse) · dlse + target · dtarget. In place.
extern const KernelDef cross_entropy_grad;

/// 2-D convolutions, NHWC, floating: x [B, H, W, C], kernel [kh, kw, C / groups, F], y [B, H', W',
/// F]; attributes as for `kernels::convolution_shape`. (x, kernel) → y.
extern const KernelDef conv2d;
/// (dy, kernel) → dx
extern const KernelDef conv2d_grad_x;
/// (x, dy) → dkernel
extern const KernelDef conv2d_grad_kernel;

/// x → the largest element of every window, NHWC, floating; NaN if one is; attributes as for
/// `kernels::pooling_shape`.
extern const KernelDef max_pool;
/// (dy, x) → dx: dy goes to the first of the largest elements of its window, and nowhere if one is
/// NaN.
extern const KernelDef max_pool_grad;

/// (w, m, v, g, learning_rate, step) → (w, m, v): Adam (Kingma & Ba 2015) with bias
/// correction, step counted from 1. Reals "beta1", "beta2", "epsilon", "weight_decay"; integer
/// "decoupled": 1 decays w itself (AdamW), 0 adds weight_decay·w to g. learning_rate and step
/// are scalars. f32, bf16, f16 or f64; g and the scalars may have another type. Of n
/// parameters: operands w, m, v of every one after the other, their n gradients, and the
/// scalars; results w, m, v of every one. In place. With one more result per parameter behind all
/// others, each is the new w, rounded to the result's type.
extern const KernelDef multi_tensor_adam;

/// (w, velocity, g, learning_rate) → (w, velocity): g' = g + weight_decay·w; velocity =
/// momentum·velocity + g'; w -= learning_rate·(nesterov ? g' + momentum·velocity : velocity). Reals
/// "momentum", "weight_decay"; integer "nesterov". Types, and several parameters, as for
/// `multi_tensor_adam`. In place.
extern const KernelDef multi_tensor_sgd;

/// (sum, x) → sum + x, in the sum's type; several sums as for `multi_tensor_adam`. In place.
extern const KernelDef multi_tensor_add;

/// (x, …) → (sum of x², …): scalars of any type, carried in double.
extern const KernelDef squared_norms;

}  // namespace alpa::cpu
