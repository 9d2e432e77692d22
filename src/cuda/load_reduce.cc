// reduce_sum, reduce_max
#include "loads.h"

namespace alpa::cuda {

Launch load_reduce(const OpDef& op, const KernelCall& call, const Card&) {
  return [launch = reduce_call(op.name, call)](const KernelCall& now, Stream stream) {
    check_queued(run_reduce(launch, now.inputs[0].data, now.outputs[0].data, now.workspace, stream),
                 "reduction");
  };
}

}  // namespace alpa::cuda
