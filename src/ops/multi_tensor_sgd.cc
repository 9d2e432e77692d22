// src/ops/multi_tensor_sgd.cc — updates parameters with momentum (Sutskever et al. 2013). Per
// parameter (w, velocity, gradient) -> (w, velocity); shared: learning_rate.
// `multi_tensor_sgd_copy` makes w in element type "copy", too.
#include "kernels/cpu/kernels.h"
#include "optimizer_types.h"
#include "src/ops/all_ops.h"

namespace alpa {

namespace {

std::vector<DType> sgd_dtypes(const OpQuery& query) {
  std::vector<DType> dtypes = ops::state_dtypes(query);
  ops::require_settings(query, {"momentum", "weight_decay"}, "nesterov");
  return dtypes;
}

}  // namespace

const OpDef ops::multi_tensor_sgd = {
    .name = "multi_tensor_sgd",
    .dims = "..., ..., ..., -> ..., ...",
    .result_dtypes = sgd_dtypes,
    .flops_per_point = 6,
    .in_place = InPlace::paired,
    .members = Members{.each = 2, .gradients = true, .shared = 1},
    .cpu = &cpu::multi_tensor_sgd,
};

const OpDef ops::multi_tensor_sgd_copy = {
    .name = "multi_tensor_sgd_copy",
    .dims = "..., ..., ..., -> ..., ..., ...",
    .result_dtypes = sgd_dtypes,
    .flops_per_point = 6,
    .in_place = InPlace::paired,
    .members = Members{.each = 2, .gradients = true, .copies = true, .shared = 1},
    .cpu = &cpu::multi_tensor_sgd,
};

}  // namespace alpa
