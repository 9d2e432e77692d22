// src/ops/cast.cc — x in another element type (floating: to nearest even; to integers: towards zero); x
// itself for stop_gradient
#include "alpa/base/error.h"
#include "alpa/ops/all_ops.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "unary.h"

namespace alpa {
namespace {

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
    .result_dtypes = [](const OpQuery& query) { return std::vector<DType>{query.attributes.dtype("to")}; },
    .vjp = [](Builder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0);
      return {is_floating(x.dtype()) ? alpa::cast(dys[0], x.dtype()) : Value{}};
    },
    .elementwise = static_cast<int>(ElementwiseOp::copy),
    .in_place = true,
    .cpu = &cpu::cast,
};

const OpDef ops::stop_gradient = {
    .name = "stop_gradient",
    .rule = elementwise_rule,
    .linear = {0b1},
    .vjp = [](Builder&, const Node&, const Values&) -> Values { return {Value{}}; },
    .elementwise = static_cast<int>(ElementwiseOp::copy),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::copy>,
};

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
