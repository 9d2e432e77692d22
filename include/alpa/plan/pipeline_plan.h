#pragma once
/// The plan of a training step: its stages, each with a sharding plan on devices of its own. A step
/// on one mesh is a plan of one stage.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alpa/plan/schedule_kind.h"
#include "alpa/plan/sharding_plan.h"
#pragma GCC visibility push(default)

namespace alpa {

/// Predicted seconds of a stage. Forward and backward: per micro-batch.
struct StageSeconds {
  double forward = 0;   ///< per micro-batch
  double backward = 0;  ///< whole: with those of weights
  double weights = 0;   ///< of backward, what schedule `zero_bubble` may put off
  double apply = 0;     ///< what runs once per step
};

/// Bytes of a device of a stage, by what they hold; exact. Stages on the same devices share them.
struct StageMemory {
  std::int64_t state = 0;         ///< parameters and optimizer state
  std::int64_t accumulators = 0;  ///< sums over micro-batches, such as gradients
  std::int64_t activations = 0;   ///< what forward runs keep for backward runs, and what is sent
  int in_flight = 1;              ///< micro-batches that have activations at the same time
  std::int64_t temporaries = 0;   ///< everything else
  std::int64_t limit = 0;         ///< a device may use
  /// sum of all kinds
  std::int64_t total() const { return state + accumulators + activations + temporaries; }
};

/// A stage: a range of layers on devices of its own.
struct StagePlan {
  int first_layer = 0, last_layer = 0;  ///< of the model, both included
  Graph graph;        ///< the stage's part of the step; what other stages give are boundary inputs
  ShardingPlan plan;  ///< of that part, on the stage's devices
  StageSeconds seconds = {};  ///< predicted
  StageMemory memory = {};    ///< of a device
};

/// What one stage sends to another.
struct StageTransfer {
  int from = 0, to = 0;  ///< stages
  bool once = false;     ///< once per step instead of once per micro-batch
  int tensors = 0;       ///< number of tensors sent
  double bytes = 0;      ///< that cross, per micro-batch or step
  double seconds = 0;    ///< predicted, per micro-batch or step
  /// "send_receive", "local_all_gather", "local_reshard" or "broadcast"
  std::set<std::string> strategies = {};
};

/// The plan of a step.
struct Plan {
  std::string method = {};                    ///< "shard", "pipeline", …
  std::vector<StagePlan> stages = {};         ///< in order; of a step on one mesh the only one
  std::vector<StageTransfer> transfers = {};  ///< between them
  /// Of the stages; none: one stage, which runs the micro-batches one after the other.
  std::optional<ScheduleKind> schedule = {};
  int at_once = 0;     ///< micro-batches in flight at most; 0: as many as the schedule has
  PlanCost cost = {};  ///< of a step
  /// Seconds that no stages take less than with as many micro-batches and the same layers computed
  /// again. 0: not known. It holds where `cost` has no bound, as other choices were only estimated.
  double variant_bound_seconds = 0;
  double bubble = 0;  ///< predicted share of the step in which stages wait, mean over stages

  /// Of the only stage. Throws Error if there are several.
  const ShardingPlan& sharding() const;
};

/// The meshes of the stages: "2x4", "2x2 + 4".
std::string meshes_text(const Plan& plan);

/// Whether the plan's cost has a lower bound, so that its gap is proven.
bool has_bound(const Plan& plan);

/// What is proven of the plan: "proven optimal", "within 0.44 % of optimal (no plan takes less than
/// 69 ms)", "along the plan of another step". Where numbers of micro-batches were only estimated:
/// "within 0.9 % of the best stages for 16 micro-batches (none take less than 6.9 s); other numbers
/// were estimated". Of stages without a bound, as they were given or as time was over: "not
/// compared with other stages, each alone proven optimal".
std::string proof_text(const Plan& plan);

/// The plan in a line, as to_string(ShardingPlan); of a step in stages with lines per stage
/// (layers, mesh, seconds, memory) and per transfer.
std::string to_string(const Plan& plan);

}  // namespace alpa

template <>
struct fmt::formatter<alpa::Plan> : alpa::TextFormatter<alpa::Plan> {};
#pragma GCC visibility pop
