// src/compile/copies_choice.cc — copies of parameters, or conversions in every micro-batch
#include "copies_choice.h"

#include "src/ir/input.h"
#include "trace.h"
#include "tuning.h"
#include "variant_choice.h"

namespace alpa {

Copies copies_of(const TrainingStep& step, const MethodOptions& method, const Cluster& cluster) {
  const std::optional<int>& given = method.options.num_micro_batches;
  const Graph graph = trace(step, given ? *given : micro_batch_choices(step).back());
  if (copies_by_state(graph).empty()) return Copies::none;
  double kept = 0;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state || input.kind == InputKind::accumulator)
      kept += static_cast<double>(graph.type(input.value).bytes());
  const double room = static_cast<double>(memory_budget(method, cluster)) * cluster.num_devices();
  return kept <= kCompileTuning.copies.most_share * room ? Copies::fit : Copies::too_large;
}

}  // namespace alpa
