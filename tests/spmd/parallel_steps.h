#pragma once
/// Training steps with many collectives and updates, partitioned and fused.
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "support/steps.h"

namespace alpa::testing {

/// Data parallelism over two devices: one all_reduce per parameter and one for the loss. Kernels of
/// 8·8 elements, 256 bytes each.
inline spmd::SpmdProgram data_parallel(int layers) {
  const auto model = [layers](Recorder& g, Value x, Value y) {
    for (int i = 0; i < layers; ++i)
      x = tanh(
          matmul(x, g.parameter(fmt::format("w{}", i), {f32, {8, 8}}, Initializer::normal(0, 1))));
    return mean(square(x - y));
  };
  const Graph graph =
      training_graph({f32, {8, 8}}, {f32, {8, 8}}, model, {.optimizer = StepOptimizer::adam});
  Layouts layouts{{"x", "S0@0"}, {"y", "S0@0"}};
  for (const Node& node : graph.nodes)
    if (node.op == &ops::multi_tensor_adam) layouts[fmt::format("%{}", node.results[0])] = "R";
  return spmd::fuse_elementwise(
      spmd::partition(graph, following_plan(graph, mesh_of({2}), layouts)));
}

/// Dense layers of `width` with biases; their kernels are 4·width² bytes, their biases 4·width.
inline Graph dense_layers(int layers, std::int64_t batch, std::int64_t width,
                          int num_micro_batches) {
  const auto model = [=](Recorder& g, Value x, Value y) {
    for (int i = 0; i < layers; ++i) {
      const Value w =
          g.parameter(fmt::format("w{}", i), {f32, {width, width}}, Initializer::normal(0, 1));
      const Value b = g.parameter(fmt::format("b{}", i), {f32, {width}}, Initializer::normal(0, 1));
      x = tanh(matmul(x, w) + b);
    }
    return mean(square(x - y));
  };
  return training_graph({f32, {batch, width}}, {f32, {batch, width}}, model,
                        {.num_micro_batches = num_micro_batches, .optimizer = StepOptimizer::adam});
}

enum class Zero : std::uint8_t { two = 2, three = 3 };

/// The batch and all optimizer state split over the devices; ZeRO-3: the parameters, too. Kernels
/// by columns, biases by their only dimension.
inline spmd::SpmdProgram zero(Zero stage, const Graph& graph, int devices = 2) {
  Layouts layouts{{"x", "S0@0"}, {"y", "S0@0"}};
  const auto split = [&](int value) { return graph.type(value).rank() == 2 ? "S1@0" : "S0@0"; };
  for (const Input& input : graph.inputs) {
    const bool optimizer = input.kind == InputKind::state && input.name[0] == 'p',
               parameter = input.kind == InputKind::state && !optimizer,
               gradient = input.kind == InputKind::accumulator && input.name != "loss.sum";
    if (optimizer || gradient || (parameter && stage == Zero::three))
      layouts[input.name] = split(input.value);
  }
  for (const Node& node : graph.nodes)
    if (node.op == &ops::multi_tensor_adam)
      layouts[fmt::format("%{}", node.results[0])] = split(node.results[0]);
  return spmd::fuse_elementwise(
      spmd::partition(graph, following_plan(graph, mesh_of({devices}), layouts)));
}

}  // namespace alpa::testing
