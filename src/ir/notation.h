#pragma once
/// Index notation of operators (`OpDef::dims`), parsed and bound to operand shapes.
#include "src/ir/op_def.h"

namespace alpa {

/// The rule of `op.dims` for these operands. Factors in order of first appearance in the
/// results, then in the operands. Throws Error when the operands do not fit the notation, Bug
/// when the notation is malformed.
Rule rule_of_notation(const OpDef& op, const OpQuery& query);

}  // namespace alpa
