// src/ops/take_along_axis.cc — y[…, j, …] = x[…, ids[…, j, …], …], and its gradient. A device that
// holds some of x's elements along the axis gives zeros for the others: a partial sum.
#include "along_axis.h"
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Dimensions of `picked`, the shape of ids, and of the whole, which has `extent` along the axis.
struct AxisLookup {
  Rule rule;
  DimFactors ids, whole;
  int axis, taken;  ///< factors along the axis: of the ids, and of the whole
};

AxisLookup lookup(const OpQuery& query, std::int64_t extent) {
  const TensorType& ids = query.operands[1];
  const std::int64_t axis = ops::axis_of(query, ids);
  AxisLookup l{ops::dims_rule(ids.shape, axis, false), {}, {}, static_cast<int>(axis), 0};
  l.taken = ops::add_factor(l.rule, extent, false);
  l.ids = ops::dims_with(ids.shape.size(), axis, l.axis);
  l.whole = ops::dims_with(ids.shape.size(), axis, l.taken);
  l.rule.work = {ops::factors_of(l.ids)};
  l.rule.linear = query.op->linear;
  l.rule.flops_per_point = query.op->flops_per_point;
  return l;
}

Rule take_rule(const OpQuery& query) {
  ops::require_ids(query, "x");
  const TensorType &x = query.operands[0], &ids = query.operands[1];
  const std::int64_t axis = ops::axis_of(query, x);
  Shape same = ids.shape;
  if (same.size() == x.shape.size()) same[axis] = x.shape[axis];
  if (same != x.shape)
    fail("take_along_axis: x and ids may differ in dimension {} alone ({})", axis,
         to_string(query.operands));
  AxisLookup l = lookup(query, x.shape[axis]);
  l.rule.operands = {l.whole, l.ids};
  l.rule.results = {l.ids};
  l.rule.reduced = {{{l.taken}}};
  l.rule.reads = {l.rule.work[0], std::nullopt};
  return l.rule;
}

/// (dy, ids) -> dx with "extent" elements along the axis.
Rule take_grad_rule(const OpQuery& query) {
  ops::require_ids(query, "y");
  if (query.operands[0].shape != query.operands[1].shape || query.attributes.integer("extent") < 1)
    fail("take_along_axis_grad: dy and ids must have one shape, and the extent be positive ({})",
         to_string(query.operands));
  AxisLookup l = lookup(query, query.attributes.integer("extent"));
  l.rule.operands = {l.ids, l.ids};
  l.rule.results = {l.whole};
  l.rule.reduced = {{{l.axis}}};
  return l.rule;
}

}  // namespace

const OpDef ops::take_along_axis = {
    .name = "take_along_axis",
    .rule = take_rule,
    .linear = {0b01},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const std::int64_t axis = n.attributes.integer("axis");
      return {g.emit_one(take_along_axis_grad, {dys[0], g.operand(n, 1)},
                         {{"axis", axis}, {"extent", g.operand(n, 0).shape()[axis]}}),
              Value{}};
    },
    .cpu = &cpu::take_along_axis,
};

const OpDef ops::take_along_axis_grad = {
    .name = "take_along_axis_grad",
    .rule = take_grad_rule,
    .flops_per_point = 1,
    .linear = {0b01},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {alpa::take_along_axis(dys[0], g.operand(n, 1), n.attributes.integer("axis")),
              Value{}};
    },
    .cpu = &cpu::take_along_axis_grad,
};

Value take_along_axis(Value x, Value ids, std::int64_t axis) {
  require(x && ids, "take_along_axis: an operand is an empty Value");
  return recorder(x).emit_one(ops::take_along_axis, {x, ids},
                              {{"axis", ops::checked_axis("take_along_axis", axis, x.type())}});
}

}  // namespace alpa
