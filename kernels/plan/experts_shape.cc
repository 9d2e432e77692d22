// kernels/plan/experts_shape.cc — reads a call of dispatch, combine or expert_products
#include "kernels/plan/experts_shape.h"

#include "src/tensor/kernel.h"

namespace alpa::kernels {

ExpertsShape experts_shape(const KernelTensor& places, const KernelTensor& held) {
  const Shape &chosen = places.type.shape, &results = held.type.shape;
  return {.dtype = held.type.dtype,
          .groups = chosen.at(0),
          .tokens = chosen.at(1),
          .choices = chosen.at(2),
          .width = results.at(3),
          .all = held.global_shape.at(0),
          .first = held.offset.at(0),
          .experts = results.at(0),
          .capacity = results.at(2)};
}

}  // namespace alpa::kernels
