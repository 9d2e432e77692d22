// SIGINT while planning: the best plan so far is saved.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "alpa/models/gpt.h"
#include "models/common/interrupt.h"
#include "support/gpt_stack.h"

namespace interrupt_test {

using namespace alpa;
using namespace alpa::testing;
using models::Decoder;
using programs::PlanningInterrupt;

namespace {

TrainingStep attention_step() { return gpt_step({.layers = 6}); }
const ShardParallel kAttentionMethod{.mesh_shape = {2, 4}, .solver_seconds = 600};

/// What `body` exits with in a process of its own; 1000 + the signal that ended it.
template <class Body>
int status_of(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGINT, SIG_DFL);  // not the test framework's
    body();
    std::_Exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("SIGINT ends planning early, with a plan that keeps its bound") {
  const PlanningInterrupt interrupt(true);
  std::thread user([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::raise(SIGINT);
  });
  // GPT 1.3B on 64 devices: a proof that nothing is better at all takes minutes.
  const TensorType tokens{i32, {64, 128}};
  const TrainingStep step = training_step(
      {{"tokens", tokens}, {"labels", tokens}},
      [decoder = Decoder({.layers = 24, .hidden = 2048, .heads = 32, .sequence = 128})](
          const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
      optim::Adam{});
  const Cluster cluster = Cluster::from_file(ALPA_SOURCE_DIR "/clusters/a100_8x8.json");
  const CompiledStep planned =
      plan_only(step,
                interrupt.ending(
                    ShardParallel{.mesh_shape = {8, 8}, .solver_seconds = 600, .relative_gap = 0}),
                cluster);
  user.join();
  CHECK(planned.seconds < 300);
  CHECK(planned.plan.cost.gap() > 0);
  const CompiledStep data = plan_only(step, DataParallel{.mesh_shape = {8, 8}}, cluster);
  CHECK(planned.plan.cost.objective_seconds <= data.plan.cost.objective_seconds * (1 + 1e-4));
}

TEST_CASE("an interrupted program saves the plan, which can be loaded, and exits with 130") {
  const std::string path = "interrupt_test_plan.json";
  std::remove(path.c_str());
  CHECK(status_of([&] {
          const PlanningInterrupt interrupt(true);
          std::raise(SIGINT);
          interrupt.exit_with(
              plan_only(attention_step(), interrupt.ending(kAttentionMethod), Cluster::local(8)),
              path);
        }) == 130);
  const Executable loaded = load_plan(attention_step(), ShardParallel{}, Cluster::local(8), path);
  CHECK(loaded.plan().sharding().mesh.num_devices() == 8);
  std::remove(path.c_str());
}

TEST_CASE("an interrupted search for stages gives stages, too") {
  const std::string path = "interrupt_test_stages.json";
  std::remove(path.c_str());
  const TrainingStep step =
      gpt_step({.layers = 3, .batch = 32, .sequence = 16, .hidden = 64, .heads = 2});
  CHECK(status_of([&] {
          const PlanningInterrupt interrupt(true);
          std::raise(SIGINT);
          PipeshardParallel method{.num_micro_batches = 4, .stages = AutoStages{}};
          method.solver_seconds = 600;
          interrupt.exit_with(plan_only(step, interrupt.ending(method), Cluster::local(4)), path);
        }) == 130);
  const Executable loaded =
      load_plan(step, PipeshardParallel{.num_micro_batches = 4}, Cluster::local(4), path);
  CHECK(!loaded.planned().plan.stages.empty());
  std::remove(path.c_str());
}

TEST_CASE("a second SIGINT, and one where no plan is to be saved, end the program as always") {
  CHECK(status_of([] {
          const PlanningInterrupt interrupt(true);
          std::raise(SIGINT);
          std::raise(SIGINT);
        }) == 1000 + SIGINT);
  CHECK(status_of([] {
          const PlanningInterrupt interrupt(false);
          std::raise(SIGINT);
        }) == 1000 + SIGINT);
}

}  // namespace interrupt_test
