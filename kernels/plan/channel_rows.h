#pragma once
/// Tensors [..., C] as rows of channels, for the kernels of every backend.
#include "alpa/base/shape.h"

namespace alpa::kernels {

/// Elements that a channel of x has. Throws Bug unless x has channels.
std::int64_t channel_rows(const TensorType& x);

}  // namespace alpa::kernels
