// src/ops/adam_update.cc — (w, m, v, g, learning_rate, step) -> (w, m, v), Kingma and Ba 2015,
// algorithm 1; AdamW if "decoupled"
#include "kernels/cpu/kernels.h"
#include "optimizer_types.h"
#include "src/ops/all_ops.h"

namespace alpa {

const OpDef ops::adam_update = {
    .name = "adam_update",
    .dims = "..., ..., ..., ..., , -> ..., ..., ...",
    .result_dtypes =
        [](const OpQuery& query) {
          const std::vector<DType> dtypes = state_dtypes(query, 3);
          require_settings(query, {"beta1", "beta2", "epsilon", "weight_decay"}, "decoupled");
          return dtypes;
        },
    .flops_per_point = 14,
    .in_place = InPlace::paired,
    .cpu = &cpu::adam_update,
};

}  // namespace alpa
