// kernels/cuda/load/rotary.cc — loads rotary position embeddings
#include "kernels/cuda/rotary.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {

Launch load_rotary(const OpDef&, const KernelCall& call, const Gpu&) {
  return [shape = kernels::rotary_shape(call)](const KernelCall& now, Stream stream) {
    check_queued(run_rotary(shape, now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                            now.outputs[0].data, stream),
                 "rotary position embedding");
  };
}

}  // namespace alpa::cuda
