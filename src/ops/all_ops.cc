#include "alpa/ops/all_ops.h"

#include "alpa/ir/graph.h"
#include "kernels/elementwise.h"

namespace alpa {
namespace {

const OpDef* const kAllOps[] = {
    &ops::input,
    &ops::einsum,
    &ops::add,
    &ops::sub,
    &ops::mul,
    &ops::div,
    &ops::maximum,
    &ops::minimum,
    &ops::pow,
    &ops::neg,
    &ops::abs,
    &ops::sign,
    &ops::exp,
    &ops::log,
    &ops::sqrt,
    &ops::rsqrt,
    &ops::tanh,
    &ops::sigmoid,
    &ops::relu,
    &ops::gelu,
    &ops::square,
    &ops::step,
    &ops::gelu_grad,
    &ops::eq,
    &ops::ne,
    &ops::lt,
    &ops::le,
    &ops::gt,
    &ops::ge,
    &ops::select,
    &ops::cast,
    &ops::stop_gradient,
    &ops::reduce_sum,
    &ops::reduce_max,
    &ops::reshape,
    &ops::transpose,
    &ops::broadcast,
    &ops::constant,
    &ops::iota,
    &ops::random_normal,
    &ops::random_uniform,
    &ops::adam_update,
    &ops::sgd_update,
};

ElementwiseOp conversion_to(DType dtype) {
  switch (dtype) {
    case DType::f32: return ElementwiseOp::cast_f32;
    case DType::bf16: return ElementwiseOp::cast_bf16;
    case DType::f16: return ElementwiseOp::cast_f16;
    case DType::f64: return ElementwiseOp::cast_f64;
    case DType::i32: return ElementwiseOp::cast_i32;
    case DType::u8: return ElementwiseOp::cast_u8;
  }
  return ElementwiseOp::copy;
}

}  // namespace

std::span<const OpDef* const> all_ops() { return kAllOps; }

const OpDef* find_op(std::string_view name) {
  for (const OpDef* op : kAllOps)
    if (op->name == name) return op;
  return nullptr;
}

int elementwise_code(const Node& node) {
  if (node.op == &ops::cast) return static_cast<int>(conversion_to(node.attributes.dtype("to")));
  return node.op->elementwise;
}

}  // namespace alpa
