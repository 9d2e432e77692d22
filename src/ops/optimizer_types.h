#pragma once
/// Element types of optimizer updates: results are the new content of the
/// first operands, the state.
#include <initializer_list>

#include "src/ir/op_def.h"

namespace alpa::ops {

/// Types of the states of all members and, if the operator makes copies, of those: "copy", which w
/// must be wider than. Throws Error unless all operands are floating.
std::vector<DType> state_dtypes(const OpQuery& query);

/// Throws Bug unless the node has these attributes, which its kernels read.
void require_settings(const OpQuery& query, std::initializer_list<const char*> reals,
                      const char* flag);

}  // namespace alpa::ops
