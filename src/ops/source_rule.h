#pragma once
/// The rule of operators without operands: attributes "dtype" and "shape" give the result,
/// every dimension can be split.
#include "src/ir/op_def.h"

namespace alpa::ops {

/// Throws Error on an extent below 1.
Rule source_rule(const OpQuery& query);
std::vector<DType> source_dtypes(const OpQuery& query);

}  // namespace alpa::ops
