#pragma once
/// Operators that the program defined (alpa/ops/custom.h), for those who run, price and read them.
#include <vector>

#include "alpa/ops/custom.h"
#include "src/ir/op_def.h"
#include "src/tensor/kernel.h"

namespace alpa {

/// `all_ops()`, and the operators defined so far: those that texts of graphs may have.
std::vector<const OpDef*> known_ops();

/// A part whose elements lie side by side, row-major.
TensorView dense_view(void* data, TensorType type, Shape offset, Shape whole);

/// The call as an operator's functions see it; `call.attributes` may be null.
OpCall op_call(const KernelCall& call);

}  // namespace alpa
