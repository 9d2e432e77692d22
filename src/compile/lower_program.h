#pragma once
/// Lowers a fused program to device programs that fit the memory budget.
#include <cstdint>

#include "alpa/compile/compiled_step.h"
#include "alpa/lower/executor_options.h"
#include "pass_log.h"
#include "src/lower/backend.h"
#include "src/lower/state_layout.h"
#include "src/plan/cost/cost_model.h"

namespace alpa {

/// Devices, options and memory that programs are lowered for.
struct LoweringTarget {
  const Cluster& cluster;
  const ExecutorOptions& options;
  std::int64_t budget;  ///< bytes of a device
  const PassLog& log;
  const lower::StateLayout* state = nullptr;  ///< of the step whose state this one shares
  const lower::Backend& backend = lower::find_backend(cluster.backend);
  cost::CostModel model = cost::CostModel::of(cluster);
};

/// `planned` with its device programs, and the memory that they take. Merged collectives keep their
/// operands until the last one is ready. If that exceeds the budget, they are merged only as far as
/// the peak stays; if that still does, none is merged. The result may exceed the budget.
CompiledStep lower_within_budget(const CompiledStep& planned, const spmd::SpmdProgram& fused,
                                 const LoweringTarget& target);

}  // namespace alpa
