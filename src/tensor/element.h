#pragma once
/// Single elements of tensors in host memory, of any element type.
#include <cstddef>

#include "alpa/base/dtype.h"

namespace alpa {

/// Stores `value` as an element of type `dtype`, rounded to nearest even (integers: towards zero).
void store_element(DType dtype, std::byte* to, double value);
double load_element(DType dtype, const std::byte* from);

}  // namespace alpa
