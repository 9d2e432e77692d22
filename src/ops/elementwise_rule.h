#pragma once
/// The rule of all elementwise operators: NumPy broadcasting, every result dimension one factor
/// that the operands of that extent share; dimensions of extent 1 have none. FLOPs and linear sets
/// are those of the operator's record. The variants differ in the element types they accept. All
/// throw Error on a user's mistake.
#include "kernels/cpu/kernels.h"
#include "src/ir/op_def.h"

namespace alpa::ops {

/// Any element types.
Rule elementwise_rule(const OpQuery& query);
/// One element type for all operands, any but u8.
Rule numeric_rule(const OpQuery& query);
/// One floating element type for all operands.
Rule floating_rule(const OpQuery& query);
/// One element type for all operands.
Rule same_type_rule(const OpQuery& query);

/// `record` completed as that of the elementwise formula `op`.
template <ElementwiseOp op>
OpDef elementwise(OpDef record) {
  record.elementwise = static_cast<int>(op);
  record.in_place = InPlace::any;
  record.cpu = &cpu::elementwise<op>;
  return record;
}

/// Linear sets of an operator of one operand that moves elements: {0b1}, but none for u8,
/// whose sums would overflow.
std::vector<std::uint32_t> movement_linear(const OpQuery& query);

/// `x f32[8, 768], y f32[4]`: operands by the names messages use for them.
std::string named_types(std::span<const TensorType> operands);

/// The name of operand `i` in messages: x, y, z.
char operand_name(std::size_t i);

/// Throws Error unless there are `n` operands.
void require_operands(const OpQuery& query, std::size_t n);

/// Throws Error unless the operands are `x`, of a floating type, and ids, i32.
void require_ids(const OpQuery& query, std::string_view x);

/// Type of numbers about elements of type x, such as sums: f32, of f64 f64.
constexpr DType statistics_type(DType x) { return x == f64 ? f64 : f32; }

/// FLOPs per element of an elementwise operator's formula.
double flops_of(int elementwise_code);

}  // namespace alpa::ops
