// src/cuda/load/quantized_matmul.cc — loads quantized_matmul and quantized_matmul_grad
#include "kernels/cuda/quantized_matmul.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

Launch load_product(const KernelCall& call, bool backward) {
  const TensorType &x = call.inputs.at(0).type, &y = call.outputs.at(0).type;
  const Shape& kernel = call.inputs.at(1).type.shape;
  const TensorType& narrow = backward ? x : y;  // [rows, features]
  const std::int64_t features = kernel.at(0);
  const QuantizedLaunch launch{features > 0 ? narrow.elements() / features : 0, features,
                               kernel.at(1), kernel.at(2), backward};
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(
        run_quantized_matmul(launch, now.inputs[0].as<float>(), now.inputs[1].as<std::uint8_t>(),
                             now.outputs[0].as<float>(), stream),
        "product with a quantised kernel");
  };
}

}  // namespace

Launch load_quantized_matmul(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_product(call, false);
}

Launch load_quantized_matmul_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_product(call, true);
}

}  // namespace alpa::cuda
