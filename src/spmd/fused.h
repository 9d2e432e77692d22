#pragma once
/// Attributes of `ops::fused`.
#include "alpa/base/attributes.h"
#include "alpa/base/shape.h"
#include "src/tensor/elementwise_program.h"

namespace alpa::spmd {

/// Attributes of a fused node whose results have this shape and these element types.
Attributes fused_attributes(const ElementwiseProgram& program, const Shape& shape,
                            const std::vector<DType>& dtypes);

}  // namespace alpa::spmd
