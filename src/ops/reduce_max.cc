// src/ops/reduce_max.cc — y = maximum of x over "axes"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "reduce_rule.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {

const OpDef ops::reduce_max = {
    .name = "reduce_max",
    .rule = [](const OpQuery& query) { return reduce_rule(query, Combiner::max); },
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value is_max = alpa::eq(g.operand(n, 0), with_kept_dims(g, n, g.result(n)));
      const Value ties =
          alpa::sum(alpa::cast(is_max, dys[0].dtype()), n.attributes.integers("axes"), true);
      return {alpa::where(is_max, with_kept_dims(g, n, dys[0]) / ties, 0)};
    },
    .cpu = &cpu::reduce<ReduceOp::max>,
};

Value max(Value x, const Axes& axes, bool keep_dims) {
  return ops::emit_reduce(ops::reduce_max, x, axes, keep_dims);
}

}  // namespace alpa
