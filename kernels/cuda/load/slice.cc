// kernels/cuda/load/slice.cc — loads slice, pad and concatenate: box copies along one dimension
#include <vector>

#include "kernels/cuda/copy.h"
#include "kernels/plan/strided_copy_plan.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

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
  CopyLaunch launch;
  const std::vector<std::int64_t> from = b.strides(), to = kernels::dense_strides(b.box.shape);
  if (!plan_copy(launch, static_cast<int>(size_of(b.box.dtype)), b.box.rank(), b.box.shape.data(),
                 from.data(), to.data(), b.first(), 0))
    fail_dims(op.name, b.box);
  return launch;
}

CopyLaunch copy_in(const OpDef& op, const Box& b) {
  CopyLaunch launch;
  const std::vector<std::int64_t> from = kernels::dense_strides(b.box.shape), to = b.strides();
  if (!plan_copy(launch, static_cast<int>(size_of(b.box.dtype)), b.box.rank(), b.box.shape.data(),
                 from.data(), to.data(), 0, b.first()))
    fail_dims(op.name, b.box);
  return launch;
}

}  // namespace

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
