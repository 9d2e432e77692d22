#pragma once
/// The list of all operators. docs/adding-an-operator.md lists what else a new one touches.
#include <span>

#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa {

/// Every operator record, `input` included, in a fixed order.
std::span<const OpDef* const> all_ops();

/// Code of a node's formula in kernels/elementwise.h, -1 if it is not elementwise.
int elementwise_code(const Node& node);

namespace ops {

extern const OpDef einsum;
extern const OpDef quantized_matmul, quantized_matmul_grad;
extern const OpDef add, sub, mul, div, maximum, minimum, pow;
extern const OpDef neg, abs, sign, exp, log, sqrt, rsqrt, tanh, sigmoid, relu, gelu, square;
extern const OpDef sin, cos, floor, erf;
/// Derivatives of relu and gelu. relu's is a function of its result, so that its operand need not
/// be kept; gelu's of its operand.
extern const OpDef step, gelu_grad;
extern const OpDef eq, ne, lt, le, gt, ge;
extern const OpDef multiply_add;  ///< x · y + z
extern const OpDef where, cast, stop_gradient;
/// Rounding to few bits: x to bf16 by random y, and to and from codes u8 of dynamic maps.
extern const OpDef stochastic_bf16;
extern const OpDef dynamic_code, signed_dynamic_code, dynamic_value, signed_dynamic_value;
extern const OpDef output;  ///< of values that a step returns (train/training_step.h)
extern const OpDef reduce_sum, reduce_max;
extern const OpDef reshape, transpose, broadcast;
extern const OpDef constant, iota, random_normal, random_uniform;
/// Sums over all dimensions but the last: of x and x², and of x and x · y.
extern const OpDef channel_sums, channel_products;
extern const OpDef layer_norm, layer_norm_grad;
extern const OpDef embedding, embedding_grad;
extern const OpDef cross_entropy, cross_entropy_grad;
extern const OpDef slice, pad, concatenate;
extern const OpDef take_along_axis, take_along_axis_grad;
extern const OpDef cumulative_sum, argmax, top_k;
extern const OpDef dispatch, combine, expert_products;
extern const OpDef rms_norm, rms_norm_grad, rotary, dropout;
extern const OpDef attention, attention_grad, cached_attention;
extern const OpDef write_rows;
extern const OpDef conv2d, conv2d_grad_x, conv2d_grad_kernel;
extern const OpDef max_pool, max_pool_grad;
/// Sums of squares of tensors, each a partial sum over the mesh axes that split the tensor.
extern const OpDef squared_norms;
/// Variadic: one node updates any number of parameters, whose specs may differ.
extern const OpDef multi_tensor_adam, multi_tensor_sgd;
/// The same, and each parameter in element type "copy" beside it.
extern const OpDef multi_tensor_adam_copy, multi_tensor_sgd_copy;

/// `all_ops()`.
// clang-format off
inline constexpr const OpDef* kAll[] = {
    &input, &einsum, &quantized_matmul, &quantized_matmul_grad,
    &add, &sub, &mul, &div, &maximum, &minimum, &pow,
    &neg, &abs, &sign, &exp, &log, &sqrt, &rsqrt,
    &tanh, &sigmoid, &relu, &gelu, &square,
    &sin, &cos, &floor, &erf, &step, &gelu_grad,
    &eq, &ne, &lt, &le, &gt, &ge,
    &multiply_add, &where, &cast, &stop_gradient,
    &stochastic_bf16, &dynamic_code, &signed_dynamic_code, &dynamic_value, &signed_dynamic_value,
    &output, &reduce_sum, &reduce_max, &reshape, &transpose, &broadcast,
    &constant, &iota, &random_normal, &random_uniform,
    &channel_sums, &channel_products, &layer_norm, &layer_norm_grad,
    &rms_norm, &rms_norm_grad, &dropout, &rotary,
    &attention, &attention_grad, &cached_attention, &write_rows,
    &embedding, &embedding_grad, &cross_entropy, &cross_entropy_grad,
    &slice, &pad, &concatenate,
    &take_along_axis, &take_along_axis_grad, &cumulative_sum, &argmax, &top_k,
    &dispatch, &combine, &expert_products,
    &conv2d, &conv2d_grad_x, &conv2d_grad_kernel, &max_pool, &max_pool_grad,
    &squared_norms, &multi_tensor_adam, &multi_tensor_sgd,
    &multi_tensor_adam_copy, &multi_tensor_sgd_copy,
};
// clang-format on

}  // namespace ops
}  // namespace alpa
