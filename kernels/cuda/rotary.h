#pragma once
/// Rotary position embedding: contract of `cpu::rotary`.
#include "kernels/cuda/launch.h"
#include "kernels/plan/rotary_shape.h"

namespace alpa::cuda {

/// y may lie where x does.
Status run_rotary(const kernels::RotaryShape& shape, const void* x, const std::int32_t* positions,
                  void* y, Stream stream);

}  // namespace alpa::cuda
