#pragma once
/// The case table: every operator with shapes, element types, attributes, and a formula in f64
/// that knows nothing of the library. It drives the tests of values, gradients, strategies,
/// FLOP counts and text form.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "src/ops/all_ops.h"

namespace alpa::testing::cases {

using alpa::Attributes;
using alpa::bf16;
using alpa::DType;
using alpa::f16;
using alpa::f32;
using alpa::f64;
using alpa::i32;
using alpa::OpDef;
using alpa::Shape;
using alpa::TensorType;
using alpa::u8;
namespace ops = alpa::ops;

/// A tensor of the reference.
struct Tensor {
  Shape shape;
  std::vector<double> data;

  double& at(const Shape& index);
  double at(const Shape& index) const { return const_cast<Tensor*>(this)->at(index); }
};

using Reference = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// An operand: its type, and the range its random elements are drawn from (whole
/// numbers for integer types).
struct Operand {
  TensorType type;
  double low = -2, high = 2;
};

struct Case {
  const OpDef* op;
  std::vector<Operand> operands;
  Reference reference;  ///< empty for random numbers, whose distribution a test of their own checks
  double flops = 0;
  Attributes attributes = {};

  std::string label() const;
};

/// Rows of the table that are in files of their own.
std::vector<Case> transformer_cases();
std::vector<Case> expert_cases();
std::vector<Case> window_cases();
std::vector<Case> update_cases();
std::vector<Case> quantized_cases();

/// The whole table.
const std::vector<Case>& all();

}  // namespace alpa::testing::cases
