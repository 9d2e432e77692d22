#pragma once
/// Shapes the result of two-operand elementwise functions.
#include "src/ir/recorder.h"

namespace alpa::ops {

/// Emits `op` on both, through broadcasts that it can do by itself.
Value emit_binary(const OpDef& op, Value x, Value y);

/// `number` as a scalar of the graph and element type of `like`.
Value scalar_like(Value like, double number);

}  // namespace alpa::ops
