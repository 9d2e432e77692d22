// src/ops/broadcast.cc — dimension d of x becomes dimension dims[d] of y; extents of 1 stretch,
// other dimensions of y repeat x
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

Rule broadcast_rule(const OpQuery& query) {
  ops::require_operands(query, 1);
  const Shape &x = query.operands[0].shape, &y = query.attributes.integers("shape");
  const std::vector<std::int64_t>& dims = query.attributes.integers("dims");
  if (dims.size() != x.size())
    fail("broadcast: {} dims for {}", dims.size(), to_string(query.operands[0]));
  Rule rule;
  DimFactors operand(x.size()), result(y.size());
  for (std::size_t d = 0; d < y.size(); ++d) {
    if (y[d] < 1) fail("broadcast: extents must be at least 1 (shape {})", to_string(y));
    result[d] = {static_cast<int>(d)};
    rule.factors.push_back({y[d]});
  }
  for (std::size_t d = 0; d < x.size(); ++d) {
    const bool ascending = d == 0 || dims[d] > dims[d - 1];
    const bool fits = ascending && dims[d] >= 0 && dims[d] < static_cast<std::int64_t>(y.size()) &&
                      (x[d] == 1 || x[d] == y[dims[d]]);
    if (!fits)
      fail("broadcast: {} does not stretch to {} along dimensions {}", to_string(query.operands[0]),
           to_string(y), to_string(dims));
    if (x[d] == y[dims[d]]) operand[d] = result[dims[d]];
  }
  rule.operands.push_back(std::move(operand));
  rule.results.push_back(std::move(result));
  rule.linear = ops::movement_linear(query);
  return rule;
}

/// Dimensions of y along which x was repeated.
Axes repeated_dims(const Shape& x, const Shape& y, const std::vector<std::int64_t>& dims) {
  Axes axes;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(y.size()); ++d) {
    const auto at = std::find(dims.begin(), dims.end(), d);
    if (y[d] > 1 && (at == dims.end() || x[at - dims.begin()] == 1)) axes.push_back(d);
  }
  return axes;
}

}  // namespace

const OpDef ops::broadcast = {
    .name = "broadcast",
    .rule = broadcast_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Shape& x = g.operand(n, 0).shape();
      const Axes axes = repeated_dims(x, dys[0].shape(), n.attributes.integers("dims"));
      return {alpa::reshape(axes.empty() ? dys[0] : alpa::sum(dys[0], axes), x)};
    },
    .alias = true,
    .cpu = &cpu::broadcast,
};

Value ops::emit_broadcast(Value x, const Shape& shape, const std::vector<std::int64_t>& dims) {
  if (x.shape() == shape) return x;
  if (const std::optional<double> value = constant_of(x))
    return alpa::constant(*x.builder, *value, x.dtype(), shape);
  return recorder(x).emit_one(broadcast, {x}, {{"dims", dims}, {"shape", shape}});
}

Value broadcast_to(Value x, const Shape& shape) {
  require(static_cast<bool>(x), "broadcast_to: the operand is an empty Value");
  if (ops::broadcast_shape(x.shape(), shape) != shape)
    fail(
        "broadcast_to: {} does not stretch to {}; extents must be equal or 1, "
        "aligned at the last dimension",
        to_string(x.type()), to_string(shape));
  std::vector<std::int64_t> dims = ops::first_dims(x.rank());
  for (std::int64_t& dim : dims) dim += static_cast<std::int64_t>(shape.size()) - x.rank();
  return ops::emit_broadcast(x, shape, dims);
}

}  // namespace alpa
