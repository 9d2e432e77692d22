#pragma once
/// Shared by the `load_…` functions that kernels/cuda/kernels.h declares.
#include <string_view>

#include "alpa/base/error.h"
#include "kernel.h"
#include "kernels/cuda/reduce_call.h"
#include "src/tensor/elementwise_program.h"
#include "status.h"

namespace alpa::cuda {

/// `program` over the tensors of `call`; `op` is named in errors. Null if it is compiled and the
/// card wants sources alone.
Launch load_program(std::string_view op, ElementwiseProgram program, const KernelCall& call,
                    const Gpu& card);

/// Throws Error with CUDA's message if a launcher's status says so.
inline void check_queued(Status status, const char* kernel) {
  check(static_cast<cudaError_t>(status), kernel);
}

/// The first multiple of `alignment` from `pointer` on.
inline std::byte* aligned(std::byte* pointer, std::uintptr_t alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return pointer + (alignment - address % alignment) % alignment;
}

}  // namespace alpa::cuda
