#pragma once
/// The CUDA backend's kernels, one row per operator: how calls are loaded, and the scratch memory
/// they need. Operators are told apart by name, as the records of libalpa_cuda.so and of the
/// program that loaded it are not the same objects. Functions `load_…` are defined in load/, and
/// only src/cuda may use a row's `load`; functions `…_scratch` know nothing of a card, so that
/// memory can be planned anywhere.
#include <cstdint>
#include <functional>
#include <string_view>

#include "kernels/cuda/launch.h"
#include "kernels/plan/einsum_group.h"
#include "src/tensor/kernel.h"

namespace alpa {
struct OpDef;
}

namespace alpa::cuda {

struct Gpu;

/// Queues one call on `stream`: `call` is the one that was loaded, now with device pointers
/// (workspace, too; `step` is device memory). Allocates nothing and waits for nothing, so that it
/// can be captured. Throws Error with CUDA's message.
using Launch = std::function<void(const KernelCall& call, Stream stream)>;

/// Analyses a call whose data pointers are not valid yet. They are null, or, where all tensors of
/// `Rows` lie side by side, the tensors' offsets in the arena. Shapes may differ from device to
/// device; extents may be 0. Throws Error naming operator and limit if the tensors exceed
/// what the kernels can walk.
using Load = Launch(const OpDef& op, const KernelCall& call, const Gpu& card);

/// Bytes of `KernelCall::workspace` of a call of operator `op`, a function of types and attributes
/// alone. Throws Error like Load.
using Scratch = std::int64_t(std::string_view op, const KernelCall& call);

/// Tensors that the kernel takes in one launch if they lie side by side: those of each row equally
/// far apart, in this order.
using Rows = std::vector<TensorRow>(const Attributes& attributes);

struct KernelRow {
  std::string_view op;
  Load* load = nullptr;
  Scratch* scratch = nullptr;  ///< null: none is ever needed
  Rows* rows = nullptr;        ///< null: none
};

Load load_elementwise, load_fused;                                       // load/elementwise.cc
Load load_einsum;                                                        // src/cuda/einsum.cc
Load load_einsum_epilogue;                                               // load/epilogue.cc
Load load_einsum_group;                                                  // load/einsum_group.cc
Load load_quantized_matmul, load_quantized_matmul_grad;                  // load/quantized_matmul.cc
Load load_reduce_sum, load_reduce_max;                                   // load/reduce.cc
Load load_reshape, load_transpose, load_broadcast;                       // load/movement.cc
Load load_slice, load_pad, load_concatenate;                             // load/movement.cc
Load load_take_along_axis, load_take_along_axis_grad;                    // load/lines.cc
Load load_cumulative_sum, load_argmax, load_top_k;                       // load/lines.cc
Load load_constant, load_iota, load_random_normal, load_random_uniform;  // load/source.cc
Load load_dropout;                                                       // load/source.cc
Load load_channel_sums, load_channel_products;                           // load/channel_sums.cc
Load load_layer_norm, load_layer_norm_grad;                              // load/layer_norm.cc
Load load_rms_norm, load_rms_norm_grad;                                  // load/layer_norm.cc
Load load_rotary;                                                        // load/attention.cc
Load load_attention, load_cached_attention;                              // load/attention.cc
Load load_write_rows;                                                    // load/movement.cc
Load load_embedding, load_embedding_grad;                                // load/embedding.cc
Load load_dispatch, load_combine, load_expert_products;                  // load/experts.cc
Load load_cross_entropy, load_cross_entropy_grad;                        // load/cross_entropy.cc
Load load_convolution;                                                   // load/convolution.cc
Load load_max_pool, load_max_pool_grad;                                  // load/pooling.cc
Load load_multi_tensor_adam, load_multi_tensor_sgd;                      // load/update.cc
Load load_multi_tensor_add, load_squared_norms;                          // load/update.cc

// kernels.cc
Scratch einsum_scratch, epilogue_scratch, einsum_group_scratch, reduce_scratch, norms_scratch,
    channel_sums_scratch, layer_norm_grad_scratch, embedding_grad_scratch, convolution_scratch,
    attention_scratch;
Rows einsum_group_rows;

/// Operators with an elementwise formula need no row: `load_elementwise` loads them.
inline constexpr KernelRow kKernels[] = {
    {"fused", load_fused},
    {"einsum", load_einsum, einsum_scratch},
    {"einsum_epilogue", load_einsum_epilogue, epilogue_scratch},
    {"einsum_group", load_einsum_group, einsum_group_scratch, einsum_group_rows},
    {"quantized_matmul", load_quantized_matmul},
    {"quantized_matmul_grad", load_quantized_matmul_grad},
    {"reduce_sum", load_reduce_sum, reduce_scratch},
    {"reduce_max", load_reduce_max, reduce_scratch},
    {"reshape", load_reshape},
    {"transpose", load_transpose},
    {"broadcast", load_broadcast},
    {"slice", load_slice},
    {"pad", load_pad},
    {"concatenate", load_concatenate},
    {"take_along_axis", load_take_along_axis},
    {"take_along_axis_grad", load_take_along_axis_grad},
    {"cumulative_sum", load_cumulative_sum},
    {"argmax", load_argmax},
    {"top_k", load_top_k},
    {"dispatch", load_dispatch},
    {"combine", load_combine},
    {"expert_products", load_expert_products},
    {"constant", load_constant},
    {"iota", load_iota},
    {"random_normal", load_random_normal},
    {"random_uniform", load_random_uniform},
    {"channel_sums", load_channel_sums, channel_sums_scratch},
    {"channel_products", load_channel_products, channel_sums_scratch},
    {"layer_norm", load_layer_norm},
    {"layer_norm_grad", load_layer_norm_grad, layer_norm_grad_scratch},
    {"rms_norm", load_rms_norm},
    {"rms_norm_grad", load_rms_norm_grad, layer_norm_grad_scratch},
    {"dropout", load_dropout},
    {"rotary", load_rotary},
    {"attention", load_attention, attention_scratch},
    {"attention_grad", load_attention, attention_scratch},
    {"cached_attention", load_cached_attention},
    {"write_rows", load_write_rows},
    {"embedding", load_embedding},
    {"embedding_grad", load_embedding_grad, embedding_grad_scratch},
    {"cross_entropy", load_cross_entropy},
    {"cross_entropy_grad", load_cross_entropy_grad},
    {"conv2d", load_convolution, convolution_scratch},
    {"conv2d_grad_x", load_convolution, convolution_scratch},
    {"conv2d_grad_kernel", load_convolution, convolution_scratch},
    {"max_pool", load_max_pool},
    {"max_pool_grad", load_max_pool_grad},
    {"multi_tensor_adam", load_multi_tensor_adam},
    {"multi_tensor_sgd", load_multi_tensor_sgd},
    {"multi_tensor_adam_copy", load_multi_tensor_adam},
    {"multi_tensor_sgd_copy", load_multi_tensor_sgd},
    {"multi_tensor_add", load_multi_tensor_add},
    {"squared_norms", load_squared_norms, norms_scratch},
};

/// True if operator `op` has a row.
bool has_row(std::string_view op);

/// Scratch bytes of a call, by the row of `op`; 0 without a row. Does not read data pointers.
std::int64_t scratch_bytes(std::string_view op, const KernelCall& call);

/// Tensors of a node of operator `op` that should lie side by side, by its row.
std::vector<TensorRow> rows_side_by_side(std::string_view op, const Attributes& attributes);

}  // namespace alpa::cuda
