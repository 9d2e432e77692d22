// src/cuda/load/custom.cc — loads operators that the program defined
#include "alpa/ops/custom.h"
#include "src/cuda/loads.h"
#include "src/ops/custom_ops.h"

namespace alpa::cuda {

Launch load_custom(const OpDef& op, const KernelCall&, const Gpu&) {
  require(static_cast<bool>(op.custom->cuda),
          "{} has no CUDA launch; set OpDefinition::cuda, or run it on CPU devices", op.name);
  return [definition = op.custom](const KernelCall& now, Stream stream) {
    definition->cuda(op_call(now), stream);
  };
}

}  // namespace alpa::cuda
