#pragma once
/// Scratch memory of the CUDA kernels, known without a card, so that memory can be planned anywhere.
#include <cstdint>
#include <string_view>

#include "alpa/tensor/kernel.h"

namespace alpa::cuda {

/// Bytes of `KernelCall::workspace` that a call of operator `op` needs (data pointers are not looked at); 0
/// if none. A function of types and attributes alone.
std::int64_t scratch_bytes(std::string_view op, const KernelCall& call);

}  // namespace alpa::cuda
