// Training steps whose products have epilogues, on CUDA devices, against the same
// steps without on the CPU.
#include <doctest/doctest.h>

#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/runtime/executor.h"
#include "support/cuda.h"
#include "support/cuda_epilogues.h"
#include "support/steps.h"

namespace cuda_epilogue_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// A training step of three dense layers of width 128 with this activation between them.
Graph step_of(Value (*activation)(Value), int micro_batches) {
  const TensorType batch{f32, {16, 128}};
  return training_graph(
      batch, batch,
      [&](Recorder& g, Value x, Value y) {
        for (int layer = 0; layer < 3; ++layer) {
          const std::string name = "dense" + std::to_string(layer);
          const Value w = g.parameter(name + "/w", {f32, {128, 128}}, Initializer::normal(0, 0.1)),
                      b = g.parameter(name + "/b", {f32, {128}}, Initializer::normal(0, 0.1));
          x = matmul(x, w) + b;
          if (layer < 2) x = activation(x);
        }
        return sum(square(x - y), {0, 1}) * 0.02;
      },
      {.num_micro_batches = micro_batches, .optimizer = alpa::testing::StepOptimizer::sgd});
}

ExecutorOptions untuned() {
  ExecutorOptions options;
  options.tune = false;
  return options;
}

spmd::SpmdProgram finished(const spmd::SpmdProgram& program) {
  return spmd::bucket_collectives(spmd::fuse_elementwise(program), 1 << 20);
}

}  // namespace

TEST_CASE(
    "steps whose products have epilogues are those of the CPU without, and the same every time") {
  if (no_cuda()) return;
  for (Value (*activation)(Value) : {relu, gelu})
    for (int micro_batches : {1, 2})
      for (const Layouts& layouts : {Layouts{{"x", "R"}}, Layouts{{"x", "S0@0"}, {"y", "S0@0"}}}) {
        const Graph graph = step_of(activation, micro_batches);
        const spmd::SpmdProgram apart = spmd::partition(
                                    graph, following_plan(graph, mesh_of({2}), layouts)),
                                joined = finished(with_cuda_epilogues(apart));
        const auto is_joined = [](const Node& node) { return node.op == &ops::einsum_epilogue; };
        CHECK(std::count_if(joined.graph.nodes.begin(), joined.graph.nodes.end(), is_joined) == 8);
        runtime::Executor cpu(finished(apart)), cuda(joined, untuned(), "cuda");
        const StepOutcome first = run_steps(cuda, 3), again = run_steps(cuda, 3);
        CHECK(largest_difference(run_steps(cpu, 3), first) < 1e-5);
        CHECK(first.state == again.state);
        CHECK(first.losses == again.losses);
      }
}

}  // namespace cuda_epilogue_test
