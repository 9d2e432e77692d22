#pragma once
/// Small training steps, and plans for them made without a planner.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "alpa/autograd/gradient.h"
#include "alpa/intra_op/plan.h"
#include "alpa/ops/all_ops.h"
#include "alpa/ops/ops.h"
#include "alpa/runtime/executor.h"

namespace alpa::test {

/// A mesh of these sizes, axes x, y, …, with equal links.
DeviceMesh mesh_of(const std::vector<int>& shape);

enum class Optimizer : std::uint8_t { sgd, adam };

struct StepOptions {
  int num_micro_batches = 1;
  Optimizer optimizer = Optimizer::sgd;
  DType dtype = f32;
};

/// Builds a loss from the builder's parameters and batch inputs "x" and "y".
using Model = std::function<Value(Builder&, Value x, Value y)>;

/// A whole training step: micro-batches of x and y, gradients (accumulated), one update. Metric "loss".
Graph training_graph(const TensorType& x, const TensorType& y, const Model& model,
                     const StepOptions& options);

/// Every node whole on every device.
ShardingPlan replicated_plan(const Graph& graph, const DeviceMesh& mesh);

/// `strategies` per node and the reshards they need: one per value and target spec, or one per use if
/// `separate(value)`. Nothing if some layout cannot be reached from another.
std::optional<ShardingPlan> plan_of(
    const Graph& graph, const DeviceMesh& mesh, const std::vector<Strategy>& strategies,
    const std::function<bool()>& separate = [] { return false; });

/// A valid plan with a strategy drawn for every node.
ShardingPlan random_plan(const Graph& graph, const DeviceMesh& mesh, std::mt19937& random);

/// partition, fuse_elementwise and bucket_collectives with a verifier after each.
SpmdProgram lowered(const Graph& graph, const ShardingPlan& plan, std::int64_t bucket_bytes = 1 << 20);

/// Batch arrays for the graph's inputs, floating ones drawn from [-1, 1), integers from [0, 3).
std::map<std::string, Array> random_batch(const Graph& graph, std::uint32_t seed);

/// Scalars "learning_rate" 0.1 and "step".
std::map<std::string, double> scalars_of(const Graph& graph, std::int64_t step);

/// Loss of every step, then the state after them by name, all as doubles.
struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> state;
};
Outcome run_steps(Executor& executor, int steps, std::uint64_t seed = 1);

/// Largest difference between two outcomes, relative to the largest element of the tensor in question (or 1
/// if that is less).
double largest_difference(const Outcome& a, const Outcome& b);

}  // namespace alpa::test
