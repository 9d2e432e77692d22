// src/ops/multi_tensor_adam.cc — updates parameters with Adam (Kingma and Ba 2015,
// algorithm 1), or with AdamW if "decoupled". Per parameter (w, m, v, gradient) -> (w, m,
// v); shared: learning_rate, step. `multi_tensor_adam_copy` makes w in element type "copy",
// too.
#include "kernels/cpu/kernels.h"
#include "optimizer_types.h"
#include "src/ops/all_ops.h"

namespace alpa {

namespace {

std::vector<DType> adam_dtypes(const OpQuery& query) {
  std::vector<DType> dtypes = ops::state_dtypes(query);
  ops::require_settings(query, {"beta1", "beta2", "epsilon", "weight_decay"}, "decoupled");
  return dtypes;
}

}  // namespace

const OpDef ops::multi_tensor_adam = {
    .name = "multi_tensor_adam",
    .dims = "..., ..., ..., ..., , -> ..., ..., ...",
    .result_dtypes = adam_dtypes,
    .flops_per_point = 14,
    .in_place = InPlace::paired,
    .members = Members{.each = 3, .gradients = true, .shared = 2},
    .cpu = &cpu::multi_tensor_adam,
};

const OpDef ops::multi_tensor_adam_copy = {
    .name = "multi_tensor_adam_copy",
    .dims = "..., ..., ..., ..., , -> ..., ..., ..., ...",
    .result_dtypes = adam_dtypes,
    .flops_per_point = 14,
    .in_place = InPlace::paired,
    .members = Members{.each = 3, .gradients = true, .copies = true, .shared = 2},
    .cpu = &cpu::multi_tensor_adam,
};

}  // namespace alpa
