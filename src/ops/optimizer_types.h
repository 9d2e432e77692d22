#pragma once
/// Element types of optimizer updates: results are the new content of the first operands, the state.
#include "alpa/ir/op_def.h"

namespace alpa::ops {

/// Types of the first `n` operands. Throws Error unless all operands are floating.
std::vector<DType> state_dtypes(const OpQuery& query, std::size_t n);

}  // namespace alpa::ops
