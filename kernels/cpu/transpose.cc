// kernels/cpu/transpose.cc — operators that only move elements: transpose, broadcast, reshape
#include <cstring>

#include "alpa/base/error.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/strided_copy.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

std::shared_ptr<const void> prepare_transpose(const KernelCall& call) {
  const TensorType &x = call.inputs.at(0).type, &y = call.outputs.at(0).type;
  const std::vector<std::int64_t> from = kernels::dense_strides(x.shape);
  std::vector<std::int64_t> strides;
  for (std::int64_t d : call.attributes->integers("permutation")) strides.push_back(from.at(d));
  invariant(strides.size() == y.shape.size() && x.elements() == y.elements(), "transpose: {} to {}",
            to_string(x), to_string(y));
  return std::make_shared<kernels::StridedCopy>(
      kernels::plan_strided_copy(y.shape, strides, size_of(x.dtype)));
}

std::shared_ptr<const void> prepare_broadcast(const KernelCall& call) {
  const TensorType &x = call.inputs.at(0).type, &y = call.outputs.at(0).type;
  const std::vector<std::int64_t> from = kernels::dense_strides(x.shape),
                                  &dims = call.attributes->integers("dims");
  std::vector<std::int64_t> strides(y.shape.size(), 0);
  invariant(dims.size() == x.shape.size(), "broadcast: {} dims for {}", dims.size(), to_string(x));
  for (std::size_t d = 0; d < dims.size(); ++d) {
    invariant(x.shape[d] == 1 || x.shape[d] == y.shape.at(dims[d]), "broadcast: {} to {}",
              to_string(x), to_string(y));
    if (x.shape[d] != 1) strides[dims[d]] = from[d];
  }
  return std::make_shared<kernels::StridedCopy>(
      kernels::plan_strided_copy(y.shape, strides, size_of(x.dtype)));
}

void run_copy(const KernelCall& call) {
  strided_copy(*static_cast<const kernels::StridedCopy*>(call.prepared.get()), call.outputs[0].data,
               call.inputs[0].data, *call.team);
}

void run_reshape(const KernelCall& call) {
  const KernelTensor &x = call.inputs[0], &y = call.outputs[0];
  if (x.data == y.data) return;
  call.team->parallel_for(y.type.bytes(), 64 * 1024, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(y.data + begin, x.data + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

const KernelDef transpose{run_copy, prepare_transpose, nullptr};
const KernelDef broadcast{run_copy, prepare_broadcast, nullptr};
const KernelDef reshape{run_reshape};

}  // namespace alpa::cpu
