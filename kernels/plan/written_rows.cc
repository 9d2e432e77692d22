// kernels/plan/written_rows.cc — extents of a call of write_rows
#include "kernels/plan/written_rows.h"

#include "src/tensor/kernel.h"

namespace alpa::kernels {

WrittenRows written_rows(const KernelCall& call) {
  const TensorType &x = call.inputs.at(0).type, &rows = call.inputs.at(1).type;
  WrittenRows s{x.shape.at(0), rows.shape.at(1), x.shape.at(1),
                static_cast<std::int64_t>(size_of(x.dtype))};
  for (std::int64_t d = 2; d < x.rank(); ++d) s.bytes *= x.shape[d];
  return s;
}

}  // namespace alpa::kernels
