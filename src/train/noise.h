#pragma once
/// Noise of made data.
#include <cstdint>

#include "alpa/tensor/array.h"

namespace alpa {

/// Standard normal numbers in f32, a function of (seed, stream, index of the element).
Array standard_normal(Shape shape, std::uint64_t seed, std::uint64_t stream);

}  // namespace alpa
