#pragma once
/// Random training graphs, random valid plans for them, and the comparison of both with one device.
#include <cstdint>
#include <random>
#include <string>

#include "support/random.h"
#include "support/steps.h"

namespace alpa::fuzz {

using testing::below;
using testing::Random;

template <class T>
const T& one_of(Random& random, const std::vector<T>& choices) {
  return choices[below(random, static_cast<int>(choices.size()))];
}

inline bool chance(Random& random, double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random) < probability;
}

/// A training graph and how far its results may deviate when sums are taken in another order.
struct Sample {
  Graph graph;
  double tolerance = 1e-9;
};

/// A training step of one to four blocks (dense, attention, layer norm, reductions, residuals, tied
/// weights, casts, noise) on odd sizes, with SGD or Adam, on one to three micro-batches.
Sample random_sample(Random& random);

/// One to three axes, 2 to 8 devices.
DeviceMesh random_mesh(Random& random);

/// A valid plan: mostly strategies that take operands as they lie, some at random.
ShardingPlan random_plan(const Graph& graph, const DeviceMesh& mesh, Random& random);

/// The planner's plan under a method, prices of links, memory and arithmetic and allowed
/// collectives drawn at random; a random plan where nothing keeps to them.
ShardingPlan planned_at_random(const Graph& graph, const DeviceMesh& mesh, Random& random);

/// Draws a sample, a mesh and a plan, lowers the plan with random buckets and passes,
/// verifies after each, and runs two steps. What went wrong, in one line; empty if nothing
/// did. Throws what the passes throw.
std::string difference_of(std::uint64_t seed);

}  // namespace alpa::fuzz
