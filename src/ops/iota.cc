// src/ops/iota.cc — y[i0, …] = i_axis
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "source_rule.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

Rule iota_rule(const OpQuery& query) {
  const std::int64_t axis = query.attributes.integer("axis"),
                     rank = static_cast<std::int64_t>(query.attributes.integers("shape").size());
  require(axis >= 0 && axis < rank, "iota: axis {} of {} dimensions", axis, rank);
  return ops::source_rule(query);
}

}  // namespace

const OpDef ops::iota = {
    .name = "iota",
    .rule = iota_rule,
    .result_dtypes = source_dtypes,
    .cpu = &cpu::iota,
};

Value iota(Builder& builder, const TensorType& type, std::int64_t axis) {
  return recorder(builder).emit_one(ops::iota, {},
                                    {{"axis", ops::checked_axis("iota", axis, type)},
                                     {"dtype", type.dtype},
                                     {"shape", type.shape}});
}

}  // namespace alpa
