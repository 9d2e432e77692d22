#pragma once
/// Operators of tests, whose result and gradient are copies, with kernels that do something else.
#include <string_view>

#include "src/ir/op_def.h"
#include "src/ir/recorder.h"

namespace alpa::testing {

/// `kernel` copies its operand into its result.
inline OpDef copying_op(std::string_view name, const KernelDef& kernel) {
  OpDef op;
  op.name = name;
  op.dims = "... -> ...";
  op.vjp = [](Recorder&, const Node&, const Values& dys) -> Values { return {dys[0]}; };
  op.cpu = &kernel;
  return op;
}

}  // namespace alpa::testing
