// src/cuda/kernels.cc — loads the kernel of an instruction
#include <algorithm>
#include <iterator>

#include "kernel.h"

namespace alpa::cuda {

Load* find_kernel(const OpDef& op) {
  const auto* const row = std::find_if(std::begin(kKernels), std::end(kKernels),
                                       [&](const KernelRow& known) { return known.op == op.name; });
  if (row != std::end(kKernels)) return row->load;
  if (op.custom) return load_custom;
  return op.elementwise >= 0 ? load_elementwise : nullptr;
}

}  // namespace alpa::cuda
