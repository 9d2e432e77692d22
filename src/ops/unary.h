#pragma once
#include "alpa/base/error.h"
#include "src/ir/recorder.h"

namespace alpa::ops {

/// Emits `op` on x. Throws Error if x is empty.
inline Value emit_unary(const OpDef& op, Value x, Attributes attributes = {}) {
  require(static_cast<bool>(x), "{}: the operand is an empty Value", op.name);
  return recorder(x).emit_one(op, {x}, std::move(attributes));
}

}  // namespace alpa::ops
