#pragma once
/// A straight-line program over the elements of equally shaped tensors, the content of a fused
/// elementwise node. Registers are numbered: inputs, then constants, then one per step. Plain data,
/// independent of the backend.
#include <vector>

#include "alpa/base/attributes.h"

namespace alpa {

/// One formula; `op` is a code of kernels/elementwise.h, a b c are registers, -1 when unused.
struct ElementwiseStep {
  int op = 0;
  int a = -1, b = -1, c = -1;

  bool operator==(const ElementwiseStep&) const = default;
};

struct ElementwiseProgram {
  int num_inputs = 0;
  std::vector<double> constants;
  std::vector<ElementwiseStep> steps;
  std::vector<int> outputs;  ///< the register of every result
  /// Result dimension of every input dimension, input after input; empty: inputs are
  /// aligned at the last dimension.
  std::vector<std::int64_t> dims;

  bool operator==(const ElementwiseProgram&) const = default;
  int num_registers() const {
    return num_inputs + static_cast<int>(constants.size() + steps.size());
  }
  int register_of_constant(int i) const { return num_inputs + i; }
  int register_of_step(int i) const { return num_inputs + static_cast<int>(constants.size()) + i; }
};

/// The program of one formula of `arity` inputs.
ElementwiseProgram one_step(int op, int arity);

/// The program as attributes "code" (op, a, b, c of every step), "outputs", and
/// "constants" and "dims" unless empty.
Attributes to_attributes(const ElementwiseProgram& program);

/// Inverse of `to_attributes` for a node with `num_inputs` operands. Throws Bug if a register is
/// read before it is written.
ElementwiseProgram parse_elementwise_program(const Attributes& attributes, int num_inputs);

}  // namespace alpa
