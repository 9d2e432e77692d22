// Steps on several cards, each of which is queued by a thread of its own: all bits are those of
// logical devices of one card, which one thread queues; what fails on one card ends them all.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "emulation.h"
#include "support/cards_of_processes.h"
#include "support/error_text.h"

namespace threads_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kBatch = 32;

struct Mode {
  Capture capture;
  bool check_instructions;
};

const Mode kCaptured{Capture::automatic, false}, kQueued{Capture::never, false},
    kChecked{Capture::automatic, true};

Executable executable_of(Method method, int devices, const Mode& mode) {
  std::visit(
      [&](auto& chosen) {
        chosen.executor.tune = false;
        chosen.executor.bucket_bytes = 256;  // several collectives are under way
        chosen.executor.capture = mode.capture;
        chosen.executor.check_instructions = mode.check_instructions;
      },
      method);
  return parallelize(staged_mlp_step(kBatch, kWidth), method, Cluster::local(devices, "cuda"));
}

/// Losses of steps of which several are under way, then all parameters.
Outcome train_on(const Method& method, int devices, int cards, const Mode& mode) {
  emulation::restart({.devices = cards});
  const Executable executable = executable_of(method, devices, mode);
  TrainState state = executable.init(3);
  const BatchData batch = {{"x", linear_dataset(kBatch, kWidth, 1).x}};
  const int graphs = emulation::totals().graphs;
  std::vector<StepResult> steps;
  for (int i = 0; i < 5; ++i) steps.push_back(executable.run(state, batch));
  Outcome outcome;
  for (const StepResult& step : steps) outcome.losses.push_back(step.loss());
  for (const DistributedArray& parameter : state.parameters())
    for (const double x : parameter.to_host().to_doubles()) outcome.weights.push_back(x);
  const bool captures = mode.capture != Capture::never && !mode.check_instructions;
  CHECK((emulation::totals().graphs - graphs >= cards) == captures);
  return outcome;
}

void check_bits(const Method& method, int devices, const std::vector<Mode>& modes) {
  CAPTURE(devices);
  const Outcome expected = train_on(method, devices, 1, kCaptured);
  for (const Mode& mode : modes) {
    CAPTURE(mode.check_instructions);
    CHECK(train_on(method, devices, devices, mode) == expected);
  }
}

}  // namespace

TEST_CASE("every method on 2, 4 and 8 cards computes the bits of one card") {
  for (const Method& method :
       {Method(DataParallel{}), Method(Zero2Parallel{}), Method(Zero3Parallel{}),
        Method(ShardParallel{}), Method(DataParallel{.num_micro_batches = 2}),
        Method(Zero3Parallel{.num_micro_batches = 2})}) {
    CAPTURE(method.index());
    check_bits(method, 2, {kCaptured, kQueued, kChecked});
    check_bits(method, 4, {kCaptured});
    check_bits(method, 8, {kCaptured});
  }
  emulation::restart({});
}

TEST_CASE("pipelines on 2, 4 and 8 cards compute the bits of one card") {
  for (const ScheduleKind schedule :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap,
        ScheduleKind::zero_bubble}) {
    CAPTURE(name_of(schedule));
    check_bits(PipeshardParallel{.num_micro_batches = 4, .schedule = schedule}, 2,
               {kCaptured, kQueued, kChecked});
    check_bits(PipeshardParallel{.num_micro_batches = 4, .schedule = schedule}, 4, {kCaptured});
  }
  check_bits(PipeshardParallel{.num_micro_batches = 4, .stages = UniformStages{4}}, 8,
             {kCaptured, kQueued, kChecked});
  check_bits(parallel_3d(2, 2, 2, 4), 8, {kCaptured});
  emulation::restart({});
}

TEST_CASE("a captured step of one micro-batch is one launch on each card, and nothing else") {
  for (const int cards : {2, 8}) {
    emulation::restart({.devices = cards});
    const Executable executable = executable_of(DataParallel{}, cards, kCaptured);
    TrainState state = executable.init(3);
    const BatchData batch = {{"x", linear_dataset(kBatch, kWidth, 1).x}};
    for (int i = 0; i < 4; ++i) executable.run(state, batch).loss();  // all graphs are there
    const emulation::Totals before = emulation::totals();
    executable.run(state, batch).loss();
    const emulation::Totals after = emulation::totals();
    CHECK(after.graph_launches - before.graph_launches == cards);
    CHECK(after.kernels == before.kernels);
    CHECK(after.graphs == before.graphs);
  }
  emulation::restart({});
}

TEST_CASE("a kernel that fails on one card ends the step on all, with the message of that card") {
  const PipeshardParallel method{.num_micro_batches = 4, .stages = UniformStages{4}};
  for (const bool first : {true, false}) {
    CAPTURE(first);
    emulation::restart({.devices = 4});
    const Executable executable = executable_of(method, 4, kCaptured);
    TrainState state = executable.init(3);
    const BatchData batch = {{"x", linear_dataset(kBatch, kWidth, 1).x}};
    if (!first) executable.run(state, batch).loss();
    emulation::fail_kernel(20);
    const std::string text = error_of([&] { executable.run(state, batch).loss(); });
    CAPTURE(text);
    CHECK(text.find("cudaErrorIllegalAddress") != text.npos);
    CHECK(text.find("another card") == text.npos);
    CHECK(text.starts_with("a step under way failed: ") == !first);
    CHECK((text.find("device ") < text.find("waiting for the card")) == first);
  }
  emulation::restart({});
}

}  // namespace threads_test
