// Any valid plan computes what one device computes: strategies drawn per node,
// reshards by find_reshard.
#include <doctest/doctest.h>

#include "src/ir/recorder.h"
#include "support/steps.h"

namespace random_plan_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Program {
  std::string name;
  TensorType x, y;
  Model model;
};

Value dense(Recorder& g, const std::string& name, Value x, std::int64_t width) {
  const Value w = g.parameter(name + ".kernel", {x.dtype(), {x.shape().back(), width}},
                              Initializer::normal(0, 0.4));
  const Value b =
      g.parameter(name + ".bias", {x.dtype(), {width}}, Initializer::uniform(-0.1, 0.1));
  return matmul(x, w) + b;
}

std::vector<Program> programs() {
  std::vector<Program> all;
  all.push_back({"MLP", {f32, {12, 8}}, {f32, {12, 6}}, [](Recorder& g, Value x, Value y) {
                   return mean(square(dense(g, "b", relu(dense(g, "a", x, 16)), 6) - y));
                 }});
  all.push_back({"MLP with uneven dimensions",
                 {f32, {14, 5}},
                 {f32, {14, 3}},
                 [](Recorder& g, Value x, Value y) {
                   return mean(square(dense(g, "b", tanh(dense(g, "a", x, 7)), 3) - y));
                 }});
  all.push_back({"residual with tied weights",
                 {f32, {8, 6}},
                 {f32, {8, 6}},
                 [](Recorder& g, Value x, Value y) {
                   const Value h = x + gelu(dense(g, "a", x, 6));
                   return mean(square(h + sigmoid(dense(g, "a", h, 6)) - y));
                 }});
  all.push_back({"classifier", {f32, {10, 7}}, {i32, {10}}, [](Recorder& g, Value x, Value y) {
                   return mean(
                       softmax_cross_entropy(dense(g, "b", relu(dense(g, "a", x, 9)), 5), y));
                 }});
  all.push_back({"noise, reshape, transpose and a maximum",
                 {f32, {4, 6, 2}},
                 {f32, {4, 3}},
                 [](Recorder& g, Value x, Value y) {
                   const Value noisy = x + random_normal(*x.builder, x.type(), 0, 0.1);
                   const Value flat = reshape(transpose(noisy, {0, 2, 1}), {x.shape()[0], 12});
                   const Value h = dense(g, "a", flat, 3);
                   return mean(square(h - y)) + mean(max(h, {1}));
                 }});
  return all;
}

}  // namespace

TEST_CASE("every plan computes what one device computes") {
  const std::vector<std::vector<int>> meshes{{2}, {3}, {4}, {2, 2}};
  std::mt19937 random(20240801);
  int plans = 0;
  for (const Program& program : programs())
    for (int micro_batches : {1, 2})
      for (StepOptimizer optimizer : {StepOptimizer::sgd, StepOptimizer::adam}) {
        const TestStepOptions options{.num_micro_batches = micro_batches, .optimizer = optimizer};
        const Graph graph = training_graph(program.x, program.y, program.model, options);
        runtime::Executor serial(lowered(graph, replicated_plan(graph, mesh_of({1}))));
        const StepOutcome expected = run_steps(serial, 2);
        for (const std::vector<int>& shape : meshes)
          for (int round = 0; round < 2; ++round, ++plans) {
            const DeviceMesh mesh = mesh_of(shape);
            const ShardingPlan plan = random_plan(graph, mesh, random);
            const spmd::SpmdProgram spmd = lowered(graph, plan, round == 0 ? 0 : 256);
            CAPTURE(program.name);
            CAPTURE(micro_batches);
            CAPTURE(shape_text(mesh));
            INFO("plan ", plans, "\n", to_string(spmd));
            runtime::Executor executor(spmd,
                                       {.overlap = round == 0 ? Overlap::always : Overlap::never});
            CHECK(largest_difference(expected, run_steps(executor, 2)) < 1e-5);
          }
      }
  CHECK(plans == 160);
}

}  // namespace random_plan_test
