#pragma once
/// Tiny models trained with `reproducible` under many plans, to be compared bit by bit.
#include <alpa/alpa.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "equivalence/zoo.h"

namespace alpa::testing {

/// A plan that a step may have. Devices are so slow that it pays to split work.
struct RunPlan {
  std::string name;
  Method method;
  int devices = 1, threads = 1;
};

/// Twelve plans in two micro-batches: one device, data parallelism, ZeRO, the planner's choice on
/// several meshes, and pipelines; 1 to 8 devices of 1 to 3 threads.
std::vector<RunPlan> twelve_plans();

/// "mlp", "gpt", "gpt with dropout", "wide_resnet": sixteen rows each.
const std::vector<ZooModel>& reproducible_models();

/// The losses of these steps of an optimizer, and the bits in f32 of the state after them, by name.
struct Bits {
  std::vector<double> losses;
  std::map<std::string, std::vector<std::uint32_t>> state;
  bool operator==(const Bits&) const = default;
};

Bits train_bits(const ZooModel& model, const RunPlan& plan, int steps, bool reproducible = true,
                const Optimizer& optimizer = optim::Adam{.learning_rate = 1e-2});

/// Checks that so many steps of every model give the same bits under all plans.
void check_twelve_plans(int steps);

}  // namespace alpa::testing
