// kernels/plan/matmul_shape.cc — the batch of a matrix product
#include "kernels/plan/matmul_shape.h"

namespace alpa::kernels {

std::int64_t MatmulShape::batches() const {
  std::int64_t count = 1;
  for (const BatchDim& d : batch) count *= d.extent;
  return count;
}

BatchOffsets batch_offsets(const std::vector<BatchDim>& batch, std::int64_t index) {
  BatchOffsets offsets;
  for (auto d = batch.rbegin(); d != batch.rend(); index /= d++->extent) {
    const std::int64_t i = index % d->extent;
    offsets.a += i * d->a;
    offsets.b += i * d->b;
    offsets.c += i * d->c;
  }
  return offsets;
}

}  // namespace alpa::kernels
