#pragma once
/// Plans that Megatron-LM can run, and its command line for them.
#include <string>

#include "tools/plan_methods.h"

namespace plan {

/// A plan in Megatron-LM's terms.
struct MegatronPlan {
  MethodResult result;       ///< its plan; none fits if `planned` is empty
  int data = 1, tensor = 1;  ///< degrees; that of the pipeline is the number of stages
  bool recomputes = false;   ///< every transformer layer
  double bound_seconds = 0;  ///< lower bound on all plans of the grid; 0: nothing is proven
  int pipeline() const { return static_cast<int>(result.planned->plan.stages.size()); }
};

/// The best plan of the grid within the time limit: tensor parallelism inside a host, beside it
/// tokens split over the same devices, optimizer state split over data-parallel devices, stages of
/// any numbers of layers on equal parts of the cluster under 1F1B, micro-batches, and all layers
/// computed again or none. Throws Error if the model has no layers to make stages of.
MegatronPlan best_megatron(const Subject& subject, const Stoppable& stoppable);

/// Throws Error, before anything is planned, if Megatron-LM's pretrain_gpt.py does not train the
/// model, or not with this optimizer.
void require_megatron(const Subject& subject);

/// The plan, what its restrictions cost beside `unrestricted`, and the command that runs it.
std::string megatron_text(const Subject& subject, const MegatronPlan& found,
                          const alpa::CompiledStep& unrestricted);

/// The same as JSON: degrees, seconds, ratio, bound, arguments, and what all methods have.
nlohmann::ordered_json megatron_json(const Subject& subject, const MegatronPlan& found,
                                     const alpa::CompiledStep& unrestricted);

/// The arguments of pretrain_gpt.py, in lines: degrees, memory, sizes, kind of model, numbers.
std::vector<std::string> megatron_arguments(const Subject& subject, const MegatronPlan& found);

}  // namespace plan
