// src/cuda/load/reduce.cc — loads reduce_sum and reduce_max
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

Launch load_reduce(const OpDef& op, ReduceOp reduction, const KernelCall& call) {
  return [launch = reduce_call(op.name, reduction, call)](const KernelCall& now, Stream stream) {
    check_queued(run_reduce(launch, now.inputs[0].data, now.outputs[0].data, now.workspace, stream),
                 "reduction");
  };
}

}  // namespace

Launch load_reduce_sum(const OpDef& op, const KernelCall& call, const Gpu&) {
  return load_reduce(op, ReduceOp::sum, call);
}

Launch load_reduce_max(const OpDef& op, const KernelCall& call, const Gpu&) {
  return load_reduce(op, ReduceOp::max, call);
}

}  // namespace alpa::cuda
