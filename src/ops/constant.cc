// src/ops/constant.cc — a tensor whose elements are all attribute "value"
#include "alpa/ops/ops.h"
#include "kernels/cpu/kernels.h"
#include "source_rule.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {

const OpDef ops::constant = {
    .name = "constant",
    .rule =
        [](const OpQuery& query) {
          Rule rule = source_rule(query);
          if (query.attributes.real("value") == 0 && query.attributes.dtype("dtype") != u8)
            rule.linear = {0};
          return rule;
        },
    .result_dtypes = source_dtypes,
    .work = Work::free,
    .cpu = &cpu::constant,
};

Value constant(Builder& builder, double value, DType dtype, const Shape& shape) {
  return recorder(builder).emit_one(ops::constant, {},
                                    {{"value", value}, {"dtype", dtype}, {"shape", shape}});
}

}  // namespace alpa
