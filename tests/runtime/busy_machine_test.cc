// Steps while other programs have the cores.
#include <doctest/doctest.h>

#include "src/ir/recorder.h"
#include "src/runtime/executor.h"
#include "support/held_threads.h"
#include "support/steps.h"

namespace busy_machine_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE(
    "a step on one device needs no thread but the caller's, and its numbers do not depend on who "
    "works") {
#if !defined(__SANITIZE_THREAD__)
  const auto model = [](Recorder& g, Value x, Value y) {
    for (int i = 0; i < 2; ++i)
      x = relu(matmul(
          x, g.parameter(fmt::format("w{}", i), {f32, {300, 300}}, Initializer::normal(0, 0.1))));
    return mean(square(x - y));
  };
  const Graph graph =
      training_graph({f32, {400, 300}}, {f32, {400, 300}}, model, {.num_micro_batches = 2});
  const spmd::SpmdProgram program = lowered(graph, replicated_plan(graph, mesh_of({1})));
  for (int threads : {0, 2, 3}) {
    CAPTURE(threads);
    runtime::Executor executor(program, {.threads_per_device = threads});
    const StepOutcome shared = run_steps(executor, 2);
    std::optional<StepOutcome> alone;
    CHECK(returns_without_others([&] {
      // Initial values are drawn by a team of their own, made while the others are held.
      alone = run_steps(executor, 2);
    }));
    CHECK(alone->losses == shared.losses);
    CHECK(alone->state == shared.state);
  }
#endif
}

}  // namespace busy_machine_test
