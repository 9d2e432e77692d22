// src/ops/squared_norms.cc — (x, …) -> (sum of x², …): a scalar of element type "dtype" per tensor
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {

const OpDef ops::squared_norms = {
    .name = "squared_norms",
    .dims = "... ->",
    .result_dtypes =
        [](const OpQuery& query) {
          return std::vector<DType>(query.operands.size(), query.attributes.dtype("dtype"));
        },
    .flops_per_point = 2,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      Values dxs;
      for (std::size_t i = 0; i < dys.size(); ++i) {
        const Value x = g.operand(n, static_cast<int>(i));
        dxs.push_back(dys[i] ? x * alpa::cast(dys[i] * 2, x.dtype()) : Value{});
      }
      return dxs;
    },
    .members = Members{},
    .cpu = &cpu::squared_norms,
};

Value squared_norm(Value x) {
  require(static_cast<bool>(x), "squared_norm: the operand is an empty Value");
  require(is_floating(x.dtype()), "squared_norm: x is {}; convert it with cast(…, f32)",
          to_string(x.type()));
  return recorder(x).emit_one(ops::squared_norms, {x}, {{"dtype", x.dtype() == f64 ? f64 : f32}});
}

}  // namespace alpa
