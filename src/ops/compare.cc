// src/ops/compare.cc — comparisons, elementwise: u8 1 where true, else 0
#include "alpa/ops/ops.h"
#include "arithmetic.h"
#include "elementwise_rule.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

std::vector<DType> condition(const OpQuery&) { return {u8}; }

template <ElementwiseOp op>
OpDef comparison(std::string_view name) {
  return ops::elementwise<op>(
      {.name = name, .rule = ops::same_type_rule, .result_dtypes = condition});
}

}  // namespace

const OpDef ops::eq = comparison<ElementwiseOp::eq>("eq");
const OpDef ops::ne = comparison<ElementwiseOp::ne>("ne");
const OpDef ops::lt = comparison<ElementwiseOp::lt>("lt");
const OpDef ops::le = comparison<ElementwiseOp::le>("le");
const OpDef ops::gt = comparison<ElementwiseOp::gt>("gt");
const OpDef ops::ge = comparison<ElementwiseOp::ge>("ge");

Value eq(Value x, Value y) { return ops::emit_binary(ops::eq, x, y); }
Value ne(Value x, Value y) { return ops::emit_binary(ops::ne, x, y); }
Value lt(Value x, Value y) { return ops::emit_binary(ops::lt, x, y); }
Value le(Value x, Value y) { return ops::emit_binary(ops::le, x, y); }
Value gt(Value x, Value y) { return ops::emit_binary(ops::gt, x, y); }
Value ge(Value x, Value y) { return ops::emit_binary(ops::ge, x, y); }
Value eq(Value x, double y) { return eq(x, ops::scalar_like(x, y)); }
Value ne(Value x, double y) { return ne(x, ops::scalar_like(x, y)); }
Value lt(Value x, double y) { return lt(x, ops::scalar_like(x, y)); }
Value le(Value x, double y) { return le(x, ops::scalar_like(x, y)); }
Value gt(Value x, double y) { return gt(x, ops::scalar_like(x, y)); }
Value ge(Value x, double y) { return ge(x, ops::scalar_like(x, y)); }

}  // namespace alpa
