#include "kernels/plan/channel_rows.h"

#include "alpa/base/error.h"

namespace alpa::kernels {

std::int64_t channel_rows(const TensorType& x) {
  invariant(!x.shape.empty(), "channel_rows: {} has no channels", to_string(x));
  return num_elements(Shape(x.shape.begin(), x.shape.end() - 1));
}

}  // namespace alpa::kernels
