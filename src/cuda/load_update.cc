// adam_update, sgd_update
#include "kernels/cuda/update.h"
#include "loads.h"

namespace alpa::cuda {
namespace {

AdamSettings adam_settings(const Attributes& a) {
  return {a.real("beta1"), a.real("beta2"), a.real("epsilon"), a.real("weight_decay"),
          a.integer("decoupled") != 0};
}

SgdSettings sgd_settings(const Attributes& a) {
  return {a.real("momentum"), a.real("weight_decay"), a.integer("nesterov") != 0};
}

DeviceScalar scalar(const KernelTensor& tensor) { return {tensor.data, tensor.type.dtype}; }

/// The row of a parameter: `states` tensors, new and old, and the gradient.
UpdateTensor row_of(const KernelCall& call, int states) {
  const auto& in = call.inputs;
  UpdateTensor row;
  row.w = in[0].data, row.new_w = call.outputs[0].data, row.w_type = in[0].type.dtype;
  row.first = in[1].data, row.new_first = call.outputs[1].data, row.first_type = in[1].type.dtype;
  if (states == 3)
    row.second = in[2].data, row.new_second = call.outputs[2].data, row.second_type = in[2].type.dtype;
  row.gradient = in[states].data, row.gradient_type = in[states].type.dtype;
  row.elements = in[0].type.elements();
  return row;
}

}  // namespace

Launch load_adam_update(const OpDef&, const KernelCall& call, const Card&) {
  return [settings = adam_settings(*call.attributes)](const KernelCall& now, Stream stream) {
    const UpdateTensor row = row_of(now, 3);
    check_queued(run_adam(&row, 1, settings, scalar(now.inputs[4]), scalar(now.inputs[5]), stream), "Adam");
  };
}

Launch load_sgd_update(const OpDef&, const KernelCall& call, const Card&) {
  return [settings = sgd_settings(*call.attributes)](const KernelCall& now, Stream stream) {
    const UpdateTensor row = row_of(now, 2);
    check_queued(run_sgd(&row, 1, settings, scalar(now.inputs[3]), stream), "SGD");
  };
}

}  // namespace alpa::cuda
