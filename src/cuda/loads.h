#pragma once
/// `Load` functions of the operators, by theme: the table of kernels.cc names them. Shapes may differ from
/// device to device; extents may be 0. Every one throws Error naming operator and limit if the tensors
/// exceed what the kernels can walk.
#include <string_view>

#include "alpa/base/error.h"
#include "alpa/tensor/elementwise_program.h"
#include "kernel.h"
#include "kernels/cuda/reduce_call.h"
#include "status.h"

namespace alpa::cuda {

// load_elementwise.cc
Launch load_elementwise(const OpDef& op, const KernelCall& call, const Card& card);
Launch load_fused(const OpDef& op, const KernelCall& call, const Card& card);

/// `program` over the tensors of `call`; `op` is named in errors.
Launch load_program(std::string_view op, ElementwiseProgram program, const KernelCall& call,
                    const Card& card);

// load_reduce.cc
Launch load_reduce(const OpDef& op, const KernelCall& call, const Card& card);

// einsum.cc
Launch load_einsum(const OpDef& op, const KernelCall& call, const Card& card);

// load_epilogue.cc
Launch load_einsum_epilogue(const OpDef& op, const KernelCall& call, const Card& card);

// load_movement.cc
Launch load_reshape(const OpDef& op, const KernelCall& call, const Card& card);
Launch load_transpose(const OpDef& op, const KernelCall& call, const Card& card);
Launch load_broadcast(const OpDef& op, const KernelCall& call, const Card& card);

// load_source.cc
Launch load_constant(const OpDef& op, const KernelCall& call, const Card& card);
Launch load_iota(const OpDef& op, const KernelCall& call, const Card& card);
Launch load_random_normal(const OpDef& op, const KernelCall& call, const Card& card);
Launch load_random_uniform(const OpDef& op, const KernelCall& call, const Card& card);

// load_update.cc
Launch load_adam_update(const OpDef& op, const KernelCall& call, const Card& card);
Launch load_sgd_update(const OpDef& op, const KernelCall& call, const Card& card);
Launch load_squared_norms(const OpDef& op, const KernelCall& call, const Card& card);

/// Throws Error with CUDA's message if a launcher's status says so.
inline void check_queued(Status status, const char* kernel) {
  check(static_cast<cudaError_t>(status), kernel);
}

}  // namespace alpa::cuda
