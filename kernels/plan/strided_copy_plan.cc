// kernels/plan/strided_copy_plan.cc — merges dimensions and finds the source's contiguous one
#include "kernels/plan/strided_copy_plan.h"

#include <algorithm>

namespace alpa::kernels {

std::vector<std::int64_t> dense_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; stride *= shape[d--])
    strides[d] = stride;
  return strides;
}

StridedCopy plan_strided_copy(const Shape& extents, const std::vector<std::int64_t>& strides,
                              std::size_t element) {
  StridedCopy plan{{}, {}, element, num_elements(extents), {}, -1};
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    if (!plan.extents.empty() && plan.strides.back() == strides[d] * extents[d]) {
      plan.extents.back() *= extents[d];
      plan.strides.back() = strides[d];
    } else {
      plan.extents.push_back(extents[d]);
      plan.strides.push_back(strides[d]);
    }
  }
  plan.dst_strides = dense_strides(plan.extents);
  const auto fast = std::find(plan.strides.begin(), plan.strides.end(), 1);
  if (fast != plan.strides.end() && plan.strides.back() > 1)
    plan.fast = static_cast<int>(fast - plan.strides.begin());
  return plan;
}

}  // namespace alpa::kernels
