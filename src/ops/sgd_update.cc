// src/ops/sgd_update.cc — (w, velocity, g, learning_rate) -> (w, velocity), Sutskever et al. 2013
#include "kernels/cpu/kernels.h"
#include "optimizer_types.h"
#include "src/ops/all_ops.h"

namespace alpa {

const OpDef ops::sgd_update = {
    .name = "sgd_update",
    .dims = "..., ..., ..., -> ..., ...",
    .result_dtypes =
        [](const OpQuery& query) {
          const std::vector<DType> dtypes = state_dtypes(query, 2);
          require_settings(query, {"momentum", "weight_decay"}, "nesterov");
          return dtypes;
        },
    .flops_per_point = 6,
    .in_place = InPlace::paired,
    .cpu = &cpu::sgd_update,
};

}  // namespace alpa
