// src/ops/reduce_sum.cc — y = sum of x over "axes"; the mean is that times one
// over the number of elements
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "reduce_rule.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// The dimensions of x that the dimensions of the result correspond to.
std::vector<std::int64_t> kept_dims(const Node& n, int rank) {
  if (n.attributes.integer("keep_dims") != 0) return ops::first_dims(rank);
  std::vector<std::int64_t> dims;
  const std::vector<std::int64_t>& axes = n.attributes.integers("axes");
  for (std::int64_t d = 0; d < rank; ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) dims.push_back(d);
  return dims;
}

}  // namespace

const OpDef ops::reduce_sum = {
    .name = "reduce_sum",
    .rule = [](const OpQuery& query) { return reduce_rule(query, Combiner::sum); },
    .linear = {0b1},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0);
      return {emit_broadcast(dys[0], x.shape(), kept_dims(n, x.rank()))};
    },
    .chunked = ChunkedSum::rows,
    .cpu = &cpu::reduce<ReduceOp::sum>,
};

Value sum(Value x, const Axes& axes, bool keep_dims) {
  return ops::emit_reduce(ops::reduce_sum, x, axes, keep_dims);
}

Value mean(Value x, const Axes& axes, bool keep_dims) {
  require(static_cast<bool>(x), "mean: the operand is an empty Value");
  require(is_floating(x.dtype()), "mean: {} is not a floating type; cast it", to_string(x.type()));
  std::int64_t count = 1;
  for (std::int64_t axis : ops::sorted_axes("mean", axes, x)) count *= x.shape()[axis];
  return sum(x, axes, keep_dims) * (1.0 / static_cast<double>(count));
}

Value variance(Value x, const Axes& axes, bool keep_dims) {
  return mean(square(x - mean(x, axes, true)), axes, keep_dims);
}

}  // namespace alpa
