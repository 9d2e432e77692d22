// src/cuda/load/movement.cc — loads operators that only move elements: transpose, broadcast and
// reshape; slice, pad and concatenate, which are box copies along one dimension; write_rows
#include <vector>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/write_rows.h"
#include "kernels/plan/strided_copy_plan.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

/// The copy over the indices of `type` from where x's strides lead to where y's do.
CopyLaunch copy_over(const OpDef& op, const TensorType& type, const Shape& x_stride,
                     const Shape& y_stride, std::int64_t x_begin = 0, std::int64_t y_begin = 0) {
  CopyLaunch launch;
  if (!plan_copy(launch, static_cast<int>(size_of(type.dtype)), type.rank(), type.shape.data(),
                 x_stride.data(), y_stride.data(), x_begin, y_begin))
    fail_dims(op.name, type);
  return launch;
}

/// Each element of the dense result is x's element at the same index, addressed by `strides`.
Launch gather(const OpDef& op, const KernelCall& call, const Shape& strides) {
  const TensorType& y = call.outputs.at(0).type;
  return [launch = copy_over(op, y, strides, kernels::dense_strides(y.shape))](
             const KernelCall& now, Stream stream) {
    check_queued(run_copy(launch, now.inputs[0].data, now.outputs[0].data, stream), "strided copy");
  };
}

/// A copy between a dense tensor of `box` and every `stride`-th element from `begin` on of
/// dimension `axis` of a dense tensor of `whole`.
struct Box {
  const TensorType& box;
  const TensorType& whole;
  std::int64_t axis, begin, stride;

  std::vector<std::int64_t> strides() const {
    std::vector<std::int64_t> strides = kernels::dense_strides(whole.shape);
    strides.at(axis) *= stride;
    return strides;
  }
  std::int64_t first() const { return begin * kernels::dense_strides(whole.shape).at(axis); }
};

CopyLaunch copy_out(const OpDef& op, const Box& b) {
  return copy_over(op, b.box, b.strides(), kernels::dense_strides(b.box.shape), b.first(), 0);
}

CopyLaunch copy_in(const OpDef& op, const Box& b) {
  return copy_over(op, b.box, kernels::dense_strides(b.box.shape), b.strides(), 0, b.first());
}

}  // namespace

Launch load_write_rows(const OpDef& op, const KernelCall& call, const Gpu&) {
  const auto whole = gather(op, call, kernels::dense_strides(call.outputs.at(0).type.shape));
  return [whole, s = kernels::written_rows(call)](const KernelCall& now, Stream stream) {
    if (now.inputs[0].data != now.outputs[0].data) whole(now, stream);
    check_queued(run_write_rows(s, now.inputs[1].data, now.inputs[2].as<std::int32_t>(),
                                now.outputs[0].data, stream),
                 "write_rows");
  };
}

Launch load_reshape(const OpDef& op, const KernelCall& call, const Gpu&) {
  return [copy = gather(op, call, kernels::dense_strides(call.outputs.at(0).type.shape))](
             const KernelCall& now, Stream stream) {
    if (now.inputs[0].data != now.outputs[0].data) copy(now, stream);
  };
}

Launch load_transpose(const OpDef& op, const KernelCall& call, const Gpu&) {
  const std::vector<std::int64_t> from = kernels::dense_strides(call.inputs.at(0).type.shape);
  std::vector<std::int64_t> strides;
  for (std::int64_t d : call.attributes->integers("permutation")) strides.push_back(from.at(d));
  return gather(op, call, strides);
}

Launch load_broadcast(const OpDef& op, const KernelCall& call, const Gpu&) {
  const Shape& x = call.inputs.at(0).type.shape;
  const std::vector<std::int64_t> from = kernels::dense_strides(x),
                                  &dims = call.attributes->integers("dims");
  std::vector<std::int64_t> strides(call.outputs.at(0).type.shape.size(), 0);
  for (std::size_t d = 0; d < x.size(); ++d)
    if (x[d] != 1) strides.at(dims[d]) = from[d];
  return gather(op, call, strides);
}

Launch load_slice(const OpDef& op, const KernelCall& call, const Gpu&) {
  const CopyLaunch launch = copy_out(
      op, {call.outputs.at(0).type, call.inputs.at(0).type, call.attributes->integer("axis"),
           call.attributes->integer("begin"), call.attributes->integer("stride")});
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(run_copy(launch, now.inputs[0].data, now.outputs[0].data, stream), "slice");
  };
}

Launch load_pad(const OpDef& op, const KernelCall& call, const Gpu&) {
  const CopyLaunch launch = copy_in(
      op, {call.inputs.at(0).type, call.outputs.at(0).type, call.attributes->integer("axis"),
           call.attributes->integer("before"), call.attributes->integer("interior") + 1});
  return [launch, y = call.outputs.at(0).type, value = call.attributes->real("value")](
             const KernelCall& now, Stream stream) {
    check_queued(run_fill(now.outputs[0].data, y.dtype, y.elements(), value, stream), "pad");
    check_queued(run_copy(launch, now.inputs[0].data, now.outputs[0].data, stream), "pad");
  };
}

Launch load_concatenate(const OpDef& op, const KernelCall& call, const Gpu&) {
  const std::int64_t axis = call.attributes->integer("axis");
  std::vector<CopyLaunch> launches;
  std::int64_t begin = 0;
  for (const KernelTensor& part : call.inputs) {
    launches.push_back(copy_in(op, {part.type, call.outputs.at(0).type, axis, begin, 1}));
    begin += part.type.shape.at(axis);
  }
  return [launches](const KernelCall& now, Stream stream) {
    for (std::size_t i = 0; i < launches.size(); ++i)
      check_queued(run_copy(launches[i], now.inputs[i].data, now.outputs[0].data, stream),
                   "concatenate");
  };
}

}  // namespace alpa::cuda
