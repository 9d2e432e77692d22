// src/cuda/load/embedding.cc — loads embedding and embedding_grad
#include "kernels/cuda/embedding.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

EmbeddingLaunch launch_of(const KernelTensor& table, const KernelTensor& ids) {
  return {table.type.dtype,         ids.type.elements(), table.type.shape.at(1),
          table.global_shape.at(0), table.offset.at(0),  table.type.shape.at(0)};
}

}  // namespace

Launch load_embedding(const OpDef&, const KernelCall& call, const Gpu&) {
  return [launch = launch_of(call.inputs.at(0), call.inputs.at(1))](const KernelCall& now,
                                                                    Stream stream) {
    check_queued(run_embedding(launch, now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                               now.outputs[0].data, stream),
                 "embedding");
  };
}

Launch load_embedding_grad(const OpDef& op, const KernelCall& call, const Gpu&) {
  const EmbeddingLaunch launch = launch_of(call.outputs.at(0), call.inputs.at(1));
  require(launch.ids <= kMaxIds,
          "{}: the CUDA kernel takes at most {} ids, not {}; split the batch", op.name, kMaxIds,
          launch.ids);
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(run_embedding_grad(launch, now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                                    now.outputs[0].data, now.workspace, stream),
                 "gradient of an embedding");
  };
}

}  // namespace alpa::cuda
