#pragma once
/// Guesses what a step takes with equal stages, in closed form: which stages, and which number of
/// micro-batches, to plan first. Guesses prove nothing. Pure functions, safe to call from several
/// threads.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "alpa/ir/graph.h"
#include "alpa/mesh/cluster.h"
#include "alpa/plan/schedule_kind.h"
#include "alpa/plan/sharding_plan.h"
#include "src/base/infinity.h"
#include "src/plan/cost/cost_model.h"

namespace alpa::inter_op {

/// Needs of layers on one device: of a micro-batch, or once per step.
struct LayerNeeds {
  double forward = 0, backward = 0;  ///< seconds of a micro-batch
  double apply = 0;                  ///< seconds of a step
  double parameters = 0;             ///< bytes of state that forward runs read
  double state = 0;                  ///< bytes of other state
  double sums = 0;                   ///< bytes of gradients that micro-batches add up
  double gradients = 0;              ///< bytes of gradients that updates read without such sums
  double kept = 0;                   ///< bytes that a micro-batch keeps for its backward run
  double passed = 0;                 ///< bytes that a micro-batch passes on to later layers
  double temporaries = 0;            ///< bytes beside all these, at the peak of a micro-batch
  double products = 0;               ///< products with parameters, those of one operand as one
  double between = 0;                ///< bytes that pass between these products
  double tensors = 0;                ///< parameters
  double statistics = 0;             ///< sums over a micro-batch that it reads, as in batch norm
  double summed = 0;                 ///< bytes of these sums
  double experts = 0;                ///< bytes of `parameters` that are experts'
  double sent = 0;                   ///< bytes of tokens on their way to experts, and back

  void add(const LayerNeeds& other, double times = 1);
};

/// Per layer of a step, as its graph says.
std::vector<LayerNeeds> needs_of_layers(const Graph& graph, const cost::CostModel& model);

/// The layers of a step at any number of micro-batches, from graphs of the step with two numbers:
/// what a micro-batch needs is linear in its rows.
struct StepNeeds {
  /// From graphs of `few` and of `many` micro-batches.
  StepNeeds(const Graph& few, const Graph& many, bool recomputes, const cost::CostModel& model);

  int few = 1, many = 1;  ///< micro-batches
  bool recomputes = false;
  double rows = 0;                          ///< of the step's batch
  std::vector<LayerNeeds> at_few, at_many;  ///< sums over the layers before each, and over all
};

/// Equal stages, and the seconds of a step that they may take.
struct StageGuess {
  double seconds = kInfinity;  ///< infinite: their memory does not suffice
  int stages = 1;
};

/// Seconds of the best guess; infinite if there is none.
inline double least_seconds(const std::vector<StageGuess>& guesses) {
  double least = kInfinity;
  for (const StageGuess& guess : guesses) least = std::min(least, guess.seconds);
  return least;
}

/// Restrictions of guessed stages, as a method has them.
struct GuessedMeshes {
  std::vector<int> shape = {};          ///< of every stage; empty: any
  std::vector<AxisUse> axis_uses = {};  ///< of the first axes; empty: any
};

/// Per number of stages that equal parts of the cluster allow, ascending: the least seconds within
/// `budget` bytes of a device, over `meshes`, over how they split the batch and parameters, and
/// over `schedules`.
std::vector<StageGuess> guess_stages(const StepNeeds& needs, int micro_batches,
                                     const std::vector<ScheduleKind>& schedules,
                                     const Cluster& cluster, const cost::CostModel& model,
                                     std::int64_t budget, const GuessedMeshes& meshes = {});

}  // namespace alpa::inter_op
