// src/ops/few_bits.cc — numbers in few bits: rounded to bf16 at random, and codes of dynamic maps
#include "alpa/base/error.h"
#include "elementwise_rule.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

std::vector<DType> code_dtypes(const OpQuery&) { return {u8}; }
std::vector<DType> value_dtypes(const OpQuery&) { return {f32}; }

Rule code_rule(const OpQuery& query) {
  if (query.operands[0].dtype != u8)
    fail("{}: codes are {}, not u8", query.op->name, to_string(query.operands[0]));
  return ops::elementwise_rule(query);
}

template <ElementwiseOp op>
OpDef to_code() {
  return ops::elementwise<op>(
      {.name = info(op).name, .rule = ops::floating_rule, .result_dtypes = code_dtypes});
}

template <ElementwiseOp op>
OpDef of_code() {
  return ops::elementwise<op>(
      {.name = info(op).name, .rule = code_rule, .result_dtypes = value_dtypes});
}

}  // namespace

const OpDef ops::stochastic_bf16 =
    elementwise<ElementwiseOp::stochastic_bf16>({.name = "stochastic_bf16", .rule = floating_rule});
const OpDef ops::dynamic_code = to_code<ElementwiseOp::dynamic_code>();
const OpDef ops::signed_dynamic_code = to_code<ElementwiseOp::signed_dynamic_code>();
const OpDef ops::dynamic_value = of_code<ElementwiseOp::dynamic_value>();
const OpDef ops::signed_dynamic_value = of_code<ElementwiseOp::signed_dynamic_value>();

}  // namespace alpa
