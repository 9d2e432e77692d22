// src/ops/cast.cc — x in another element type (floating: to nearest even; to integers: towards
// zero); x itself for stop_gradient
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "unary.h"

namespace alpa {
namespace {

ElementwiseOp conversion_to(DType dtype) {
  switch (dtype) {
    case DType::f32: return ElementwiseOp::cast_f32;
    case DType::bf16: return ElementwiseOp::cast_bf16;
    case DType::f16: return ElementwiseOp::cast_f16;
    case DType::f64: return ElementwiseOp::cast_f64;
    case DType::i32: return ElementwiseOp::cast_i32;
    case DType::u8: return ElementwiseOp::cast_u8;
  }
  bug("element type {}", static_cast<int>(dtype));
}

/// Conversion keeps partial sums exact only into a type that holds every number of the first.
bool widens(DType from, DType to) {
  return is_floating(from) && is_floating(to) && (from == to || size_of(to) > size_of(from));
}

Rule cast_rule(const OpQuery& query) {
  Rule rule = ops::elementwise_rule(query);
  if (widens(query.operands[0].dtype, query.attributes.dtype("to"))) rule.linear = {0b1};
  return rule;
}

}  // namespace

const OpDef ops::cast = {
    .name = "cast",
    .rule = cast_rule,
    .result_dtypes =
        [](const OpQuery& query) { return std::vector<DType>{query.attributes.dtype("to")}; },
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0);
      return {is_floating(x.dtype()) ? alpa::cast(dys[0], x.dtype()) : Value{}};
    },
    .elementwise = static_cast<int>(ElementwiseOp::copy),
    .elementwise_of =
        [](const Attributes& a) { return static_cast<int>(conversion_to(a.dtype("to"))); },
    .in_place = InPlace::any,
    .cpu = &cpu::cast,
};

const OpDef ops::stop_gradient = elementwise<ElementwiseOp::copy>({
    .name = "stop_gradient",
    .rule = elementwise_rule,
    .linear = {0b1},
    .vjp = [](Recorder&, const Node&, const Values&) -> Values { return {Value{}}; },
    .work = Work::free,
    .alias = true,
});

Value cast(Value x, DType to) {
  require(static_cast<bool>(x), "cast: the operand is an empty Value");
  if (x.dtype() == to) return x;
  const std::optional<double> number =
      is_floating(x.dtype()) && is_floating(to) ? ops::constant_of(x) : std::nullopt;
  if (number) return constant(*x.builder, *number, to, x.shape());
  return ops::emit_unary(ops::cast, x, {{"to", to}});
}

Value stop_gradient(Value x) { return ops::emit_unary(ops::stop_gradient, x); }

}  // namespace alpa
