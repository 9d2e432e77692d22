// src/cuda/load/update.cc — loads multi_tensor_adam, multi_tensor_sgd and multi_tensor_add (of
// one or many parameters) and squared_norms. Operands are ordered as in kernels/cpu/kernels.h.
#include <vector>

#include "kernels/cuda/update.h"
#include "src/cuda/loads.h"

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

/// Whether results behind the states are copies of the parameters.
bool has_copies(const KernelCall& call, std::size_t members, int states) {
  return call.outputs.size() > members * states;
}

/// Types and sizes of a call's tensors, one row per parameter; their memory is not known yet.
std::vector<UpdateTensor> rows_of(const KernelCall& call, int states, int scalars) {
  const std::size_t members = (call.inputs.size() - scalars) / (states + 1);
  std::vector<UpdateTensor> rows(members);
  for (std::size_t m = 0; m < members; ++m) {
    const KernelTensor* const state = &call.inputs[m * states];
    rows[m].w_type = rows[m].first_type = rows[m].second_type = state[0].type.dtype;
    if (states > 1) rows[m].first_type = state[1].type.dtype;
    if (states > 2) rows[m].second_type = state[2].type.dtype;
    rows[m].gradient_type = call.inputs[members * states + m].type.dtype;
    rows[m].elements = state[0].type.elements();
    if (has_copies(call, members, states))
      rows[m].copy_type = call.outputs[members * states + m].type.dtype;
  }
  return rows;
}

void point(std::vector<UpdateTensor>& rows, const KernelCall& call, int states) {
  for (std::size_t m = 0; m < rows.size(); ++m) {
    const KernelTensor *const old = &call.inputs[m * states], *const made =
                                                                  &call.outputs[m * states];
    rows[m].w = old[0].data, rows[m].new_w = made[0].data;
    if (states > 1) rows[m].first = old[1].data, rows[m].new_first = made[1].data;
    if (states > 2) rows[m].second = old[2].data, rows[m].new_second = made[2].data;
    rows[m].gradient = call.inputs[rows.size() * states + m].data;
    if (has_copies(call, rows.size(), states))
      rows[m].copy = call.outputs[rows.size() * states + m].data;
  }
}

}  // namespace

Launch load_multi_tensor_adam(const OpDef&, const KernelCall& call, const Gpu&) {
  return [settings = adam_settings(*call.attributes), rows = rows_of(call, 3, 2)](
             const KernelCall& now, Stream stream) mutable {
    point(rows, now, 3);
    const std::size_t last = now.inputs.size() - 1;
    check_queued(run_adam(rows.data(), static_cast<int>(rows.size()), settings,
                          scalar(now.inputs[last - 1]), scalar(now.inputs[last]), stream),
                 "Adam");
  };
}

Launch load_multi_tensor_sgd(const OpDef&, const KernelCall& call, const Gpu&) {
  return [settings = sgd_settings(*call.attributes), rows = rows_of(call, 2, 1)](
             const KernelCall& now, Stream stream) mutable {
    point(rows, now, 2);
    check_queued(run_sgd(rows.data(), static_cast<int>(rows.size()), settings,
                         scalar(now.inputs.back()), stream),
                 "SGD");
  };
}

Launch load_multi_tensor_add(const OpDef&, const KernelCall& call, const Gpu&) {
  return [rows = rows_of(call, 1, 0)](const KernelCall& now, Stream stream) mutable {
    point(rows, now, 1);
    check_queued(run_add(rows.data(), static_cast<int>(rows.size()), stream), "sums");
  };
}

Launch load_squared_norms(const OpDef&, const KernelCall& call, const Gpu&) {
  std::vector<NormTensor> tensors;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    tensors.push_back({nullptr, nullptr, call.inputs[i].type.dtype, call.outputs[i].type.dtype,
                       call.inputs[i].type.elements()});
  return [tensors](const KernelCall& now, Stream stream) mutable {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      tensors[i].x = now.inputs[i].data, tensors[i].result = now.outputs[i].data;
    check_queued(run_squared_norms(tensors.data(), static_cast<int>(tensors.size()),
                                   reinterpret_cast<double*>(now.workspace), stream),
                 "squared norms");
  };
}

}  // namespace alpa::cuda
