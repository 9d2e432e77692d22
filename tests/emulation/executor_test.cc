// The CUDA executor on emulated machines that fail, run out of memory, or
// run graphs in another order.
#include "src/runtime/executor.h"

#include <doctest/doctest.h>

#include <optional>

#include "alpa/alpa.h"
#include "emulation.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/runtime/device_state.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace executor_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

spmd::SpmdProgram program_of(int devices, int num_micro_batches = 2) {
  const Graph graph = training_graph(
      {f32, {24, 10}}, {f32, {24, 6}}, small_mlp,
      {.num_micro_batches = num_micro_batches, .optimizer = alpa::testing::StepOptimizer::adam});
  return lowered(graph, following_plan(graph, mesh_of({devices}), {{"x", "S0@0"}, {"y", "S0@0"}}));
}

/// An executor on a fresh machine.
struct Fixture {
  explicit Fixture(const spmd::SpmdProgram& program, const emulation::Machine& machine = {}) {
    emulation::restart(machine);
    REQUIRE(cuda_support().usable());
    ExecutorOptions options;
    options.tune = false;
    executor.emplace(program, options, "cuda");
  }

  runtime::RunningStep start(runtime::DeviceState& state, int step) {
    const Graph& graph = executor->program().graph;
    return executor->start(state, random_batch(graph, step), scalars_of(graph, step));
  }

  std::optional<runtime::Executor> executor;
};

}  // namespace

TEST_CASE("a kernel that fails in the first step is named, and the state is unusable") {
  Fixture fixture(program_of(2));
  const auto state = fixture.executor->make_state(0);
  emulation::fail_kernel(3);  // behind the two that clear accumulators
  const std::string text = error_of([&] { fixture.start(*state, 1).metrics(); });
  CHECK(text.starts_with("device 0: instruction "));
  CHECK(text.find("forward, micro-batch 1 of 2): ") != text.npos);
  CHECK(text.find("cudaErrorIllegalAddress") != text.npos);
  CHECK(error_of([&] { fixture.start(*state, 2); }) ==
        "this state is unusable since a step failed: " + text +
            "; make a new one or restore a checkpoint");
  CHECK(error_of([&] { fixture.executor->make_state(0); }).find("cudaErrorIllegalAddress") !=
        text.npos);
}

TEST_CASE("accumulators that cannot be cleared are named with their device") {
  Fixture fixture(program_of(2));
  const auto state = fixture.executor->make_state(0);
  emulation::fail_kernel(2);
  const std::string text = error_of([&] { fixture.start(*state, 1).metrics(); });
  CHECK(text.starts_with("device 1: clearing of the accumulators: waiting for the card: "));
  CHECK(text.find("cudaErrorIllegalAddress") != text.npos);
}

TEST_CASE(
    "a kernel that fails in a captured step surfaces where the step is waited for, or at the next "
    "one") {
  for (const bool waits : {true, false}) {
    Fixture fixture(program_of(2));
    const auto state = fixture.executor->make_state(0);
    fixture.start(*state, 1).metrics();
    emulation::fail_kernel(3);
    const runtime::RunningStep failed = fixture.start(*state, 2);
    std::string text;
    if (waits)
      text = error_of([&] { failed.metrics(); });
    else
      for (int step = 3; text.empty() && step < 6; ++step)
        text = error_of([&] { fixture.start(*state, step).metrics(); });
    CAPTURE(text);
    CHECK(text.find("a step under way failed: cudaErrorIllegalAddress (700): ") != text.npos);
    CHECK(error_of([&] {
            fixture.start(*state, 9);
          }).starts_with("this state is unusable since a step failed"));
    const std::string again = error_of([&] { failed.metrics(); });
    CHECK(again.starts_with("a step under way failed: cudaErrorIllegalAddress (700): "));
    CHECK(again.ends_with("; ExecutorOptions::check_instructions names the instruction"));
  }
}

TEST_CASE("too little memory is an error with the bytes, and leaves the executor usable") {
  emulation::Machine machine;
  machine.memory_bytes = 40'000;
  const spmd::SpmdProgram program = program_of(1);
  Fixture fixture(program, machine);
  const std::int64_t bytes = fixture.executor->memory_bytes();
  REQUIRE(bytes > 20'000);
  REQUIRE(bytes < 40'000);
  auto first = fixture.executor->make_state(0);
  const std::string text = error_of([&] { fixture.executor->make_state(0); });
  CHECK(text.substr(0, text.find("; the largest")) ==
        fmt::format("device 0 (GPU 0, alpa emulated device): no memory for an arena of {} bytes: "
                    "{} of 40000 are free. It is the planned peak",
                    bytes, 40'000 - bytes));
  CHECK(fixture.start(*first, 1).metrics().at("loss") > 0);
}

TEST_CASE("what a card has no memory for is refused when it is planned") {
  emulation::Machine machine;
  machine.memory_bytes = 20'000;
  emulation::restart(machine);
  const TrainingStep step = training_step(
      {{"x", {f32, {24, 10}}}, {"y", {f32, {24, 6}}}},
      [](const Batch& batch) { return small_mlp(recorder(batch["x"]), batch["x"], batch["y"]); },
      optim::Sgd{});
  const Cluster card = Cluster::local(1, "cuda");
  CHECK(card.device.memory_bytes == 10'000);  // a half is left free, since it is less than 1 GiB
  const std::string text = error_of([&] { parallelize(step, Serial{}, card); });
  CAPTURE(text);
  CHECK(text.find("more than the memory budget of 10000; use more devices") != text.npos);
  emulation::restart({});
}

TEST_CASE("steps allocate no device memory") {
  Fixture fixture(program_of(3));
  const auto state = fixture.executor->make_state(0);
  const std::size_t before = emulation::allocations(0);
  for (int step = 1; step <= 5; ++step) fixture.start(*state, step);
  fixture.executor->read(*state, "a");
  CHECK(emulation::allocations(0) == before);
}

TEST_CASE("a captured step does not depend on the order in which its graph runs") {
  std::optional<StepOutcome> reference;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    emulation::Machine machine;
    machine.seed = seed;
    Fixture fixture(program_of(4), machine);
    const StepOutcome outcome = run_steps(*fixture.executor, 4);
    if (!reference) reference = outcome;
    CHECK(largest_difference(outcome, *reference) == 0);
  }
}

}  // namespace executor_test
