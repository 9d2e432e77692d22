// The executor on CUDA devices: steps under way, memory, failures. Logical
// devices, if there is one card.
#include <doctest/doctest.h>

#include "src/ir/recorder.h"
#include "src/runtime/device_state.h"
#include "support/cuda.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace cuda_executor_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Graph mlp_step(int num_micro_batches = 1) {
  return training_graph(
      {f32, {24, 10}}, {f32, {24, 6}}, small_mlp,
      {.num_micro_batches = num_micro_batches, .optimizer = alpa::testing::StepOptimizer::adam});
}

spmd::SpmdProgram data_parallel(const Graph& graph, int devices) {
  return lowered(graph, following_plan(graph, mesh_of({devices}), {{"x", "S0@0"}, {"y", "S0@0"}}));
}

ExecutorOptions untuned() {
  ExecutorOptions options;
  options.tune = false;
  return options;
}

}  // namespace

TEST_CASE("CUDA devices take the steps that CPU devices take") {
  if (no_cuda()) return;
  for (int micro_batches : {1, 4})
    for (int devices : {1, 2, 3}) {
      if (no_cuda(devices)) continue;
      CAPTURE(micro_batches);
      CAPTURE(devices);
      const spmd::SpmdProgram program = data_parallel(mlp_step(micro_batches), devices);
      runtime::Executor cpu(program), cuda(program, untuned(), "cuda");
      CHECK(largest_difference(run_steps(cpu, 4), run_steps(cuda, 4)) < 1e-5);
      CHECK(cuda.measured_traffic() == cpu.measured_traffic());
    }
}

TEST_CASE("steps on CUDA run while the caller goes on, and report in any order") {
  if (no_cuda()) return;
  const Graph graph = mlp_step(2);
  runtime::Executor executor(data_parallel(graph, 2), untuned(), "cuda");
  std::vector<double> expected;
  const auto waited = executor.make_state(5);
  for (int step = 1; step <= 5; ++step)
    expected.push_back(
        executor.run(*waited, random_batch(graph, step), scalars_of(graph, step)).at("loss"));
  const auto state = executor.make_state(5);
  std::vector<runtime::RunningStep> results;
  for (int step = 1; step <= 5; ++step) {
    auto batch = random_batch(graph, step);
    results.push_back(executor.start(*state, batch, scalars_of(graph, step)));
    for (float& x : batch.at("x").mutable_elements_as<float>()) x = 1e30f;  // the caller's again
  }
  for (int step = 5; step >= 1; --step)
    CHECK(results[step - 1].metrics().at("loss") == expected[step - 1]);
  CHECK(executor.read(*state, "a").to_doubles() == executor.read(*waited, "a").to_doubles());
}

TEST_CASE(
    "a result outlives its executor, and state can be read and written between steps on CUDA") {
  if (no_cuda()) return;
  const Graph graph = mlp_step();
  std::optional<runtime::RunningStep> result;
  {
    runtime::Executor executor(data_parallel(graph, 2), untuned(), "cuda");
    const auto state = executor.make_state(1), other = executor.make_state(2);
    executor.start(*state, random_batch(graph, 1), scalars_of(graph, 1));
    const Array a = executor.read(*state, "a");
    executor.write(*other, "a", a);
    CHECK(executor.read(*other, "a").to_doubles() == a.to_doubles());
    executor.start(*state, random_batch(graph, 2), scalars_of(graph, 2));
    result = executor.start(*other, random_batch(graph, 2), scalars_of(graph, 2));
  }
  CHECK(result->metrics().at("loss") > 0);
}

TEST_CASE(
    "planned bytes are those of the arenas on CUDA, which are larger than the CPU's by staged "
    "inputs") {
  if (no_cuda()) return;
  const spmd::SpmdProgram program = data_parallel(mlp_step(4), 2);
  runtime::Executor executor(program, untuned(), "cuda");
  CHECK(executor.measured_bytes(*executor.make_state(0)) == executor.memory_bytes());
  // For three steps 12 rows of 10 and 6 numbers, each rounded up to 256 bytes,
  // and contexts and scalars.
  const lower::DeviceProgram& device = executor.device_program(0);
  CHECK(device.buffers[device.staging].type.bytes() == 3 * (256 + 512 + 512));
}

TEST_CASE("an arena that no card can hold is an error that names bytes and tensors") {
  if (no_cuda()) return;
  Recorder g;
  const Value w =
      g.parameter("w", {f32, {std::int64_t{1} << 25, std::int64_t{1} << 25}}, Initializer::zeros());
  g.update(w, w);
  const Graph graph = g.finish();
  runtime::Executor executor(lowered(graph, replicated_plan(graph, mesh_of({1}))), untuned(),
                             "cuda");
  const std::string text = error_of([&] { executor.make_state(0); });
  CHECK(text.starts_with("device 0 (GPU 0, "));
  CHECK(text.find("no memory for an arena of 4503599627") != text.npos);
  CHECK(
      text.find("the largest tensors are \"w\" f32[33554432, 33554432] of 4503599627370496 bytes. "
                "Use more GPUs") != text.npos);
}

TEST_CASE("an operator without a CUDA kernel is named when the program is loaded") {
  if (no_cuda()) return;
  OpDef strange;
  strange.name = "strange";
  strange.dims = "... -> ...";
  strange.vjp = [](Recorder&, const Node&, const Values& dys) -> Values { return {dys[0]}; };
  const auto model = [&](Recorder& g, Value x, Value y) {
    return small_mlp(g, g.emit_one(strange, {x}), y);
  };
  const Graph graph = training_graph({f32, {24, 10}}, {f32, {24, 6}}, model, {});
  CHECK(
      error_of([&] { runtime::Executor(data_parallel(graph, 2), untuned(), "cuda"); }) ==
      "device 0: instruction 1 'strange' (strange, forward): operator strange has no CUDA kernel");
}

TEST_CASE("instructions checked one by one give the bits of the captured step") {
  if (no_cuda()) return;
  const spmd::SpmdProgram program = data_parallel(mlp_step(2), 2);
  ExecutorOptions checked = untuned();
  checked.check_instructions = true;
  runtime::Executor slow(program, checked, "cuda"), fast(program, untuned(), "cuda");
  CHECK(largest_difference(run_steps(slow, 4), run_steps(fast, 4)) == 0);
}

}  // namespace cuda_executor_test
