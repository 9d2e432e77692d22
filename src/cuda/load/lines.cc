// src/cuda/load/lines.cc — loads operators along one dimension:
// take_along_axis and its gradient, cumulative_sum, argmax, top_k
#include "kernels/cuda/lines.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

Lines lines_of(const TensorType& type, std::int64_t axis) {
  Lines lines{type.dtype, 1, type.shape.at(axis), 1};
  for (std::int64_t d = 0; d < type.rank(); ++d)
    if (d != axis) (d < axis ? lines.outer : lines.inner) *= type.shape[d];
  return lines;
}

HeldPart part_of(const KernelTensor& x, std::int64_t axis) {
  return {x.global_shape.at(axis), x.offset.at(axis), x.type.shape.at(axis)};
}

/// `picked` has the shape of the ids, `held` the dimension that they count.
Launch load_taking(decltype(run_take)* run, const KernelCall& call, const KernelTensor& picked,
                   const KernelTensor& held, const char* what) {
  const std::int64_t axis = call.attributes->integer("axis");
  return [run, lines = lines_of(picked.type, axis), part = part_of(held, axis), what](
             const KernelCall& now, Stream stream) {
    check_queued(run(lines, part, now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                     now.outputs[0].data, stream),
                 what);
  };
}

}  // namespace

Launch load_take_along_axis(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_taking(run_take, call, call.outputs.at(0), call.inputs.at(0), "take_along_axis");
}

Launch load_take_along_axis_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_taking(run_take_grad, call, call.inputs.at(0), call.outputs.at(0),
                     "gradient of take_along_axis");
}

Launch load_cumulative_sum(const OpDef&, const KernelCall& call, const Gpu&) {
  return
      [lines = lines_of(call.inputs.at(0).type, call.attributes->integer("axis")),
       exclusive = call.attributes->integer("exclusive") != 0,
       reverse = call.attributes->integer("reverse") != 0](const KernelCall& now, Stream stream) {
        check_queued(run_cumulative_sum(lines, exclusive, reverse, now.inputs[0].data,
                                        now.outputs[0].data, stream),
                     "cumulative_sum");
      };
}

Launch load_argmax(const OpDef&, const KernelCall& call, const Gpu&) {
  return [lines = lines_of(call.inputs.at(0).type, call.attributes->integer("axis"))](
             const KernelCall& now, Stream stream) {
    check_queued(run_argmax(lines, now.inputs[0].data, now.outputs[0].as<std::int32_t>(), stream),
                 "argmax");
  };
}

Launch load_top_k(const OpDef&, const KernelCall& call, const Gpu&) {
  const TensorType& x = call.inputs.at(0).type;
  return [lines = lines_of(x, x.rank() - 1), k = call.attributes->integer("k"),
          descending = call.attributes->integer("descending") != 0](const KernelCall& now,
                                                                    Stream stream) {
    check_queued(run_top_k(lines, k, descending, now.inputs[0].data, now.outputs[0].data,
                           now.outputs[1].as<std::int32_t>(), stream),
                 "top_k");
  };
}

}  // namespace alpa::cuda
