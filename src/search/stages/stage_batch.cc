// Which dimension of the values between stages is the batch
#include "src/search/stages/stage_batch.h"

#include "src/plan/facts/batch_factors.h"

namespace alpa {

std::vector<BoundaryBatchDims> batch_dims_of(const std::vector<StagePlan>& stages) {
  std::vector<BoundaryBatchDims> dims(stages.size());
  BoundaryBatchDims given;
  for (std::size_t before = 1, now = 0; before != now;) {
    before = given.size();
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::vector<int> known = intra_op::batch_dims(stages[s].graph, dims[s]);
      for (const Output& output : stages[s].graph.outputs)
        if (known[output.value] >= 0) given[output.name] = known[output.value];
      for (const Input& input : stages[s].graph.inputs)
        if (given.contains(input.name) && input.kind == InputKind::boundary)
          dims[s][input.name] = given.at(input.name);
    }
    now = given.size();
  }
  return dims;
}

}  // namespace alpa
