// Steps of which a card, or another process, does not come to a collective or a message.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "emulation.h"
#include "support/cards_of_processes.h"
#include "support/error_text.h"

namespace stall_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

template <class M>
M watched(M method, Capture capture = Capture::automatic) {
  method.executor.tune = false;
  method.executor.capture = capture;
  method.executor.stall_seconds = 0.2;
  return method;
}

/// The error of a step after `steps` others in which card `held` runs no kernel.
std::string error_of_held(const Method& method, int held, int steps) {
  emulation::restart({.devices = 2});
  const Executable train =
      parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(2, "cuda"));
  TrainState state = train.init(0);
  const BatchData batch = staged_mlp_batch();
  for (int i = 0; i < steps; ++i) CHECK(train.run(state, batch).loss() > 0);
  emulation::hold(held, true);
  const std::string text = error_of([&] { train.run(state, batch).loss(); });
  const std::string again = error_of([&] { train.run(state, batch).loss(); });
  CHECK(again.find(text) != text.npos);
  emulation::hold(held, false);
  return text;
}

}  // namespace

TEST_CASE("a card that does not come to a collective is named with its device and instruction") {
  for (const int steps : {0, 2}) {
    CAPTURE(steps);
    const std::string text = error_of_held(watched(DataParallel{}), 1, steps);
    CAPTURE(text);
    CHECK(text.starts_with("device 0: instruction "));
    CHECK(text.find("(all_reduce, ") != text.npos);
    CHECK(
        text.ends_with(": waits for device 1, still after 200 ms; give a larger stall_seconds if "
                       "it takes longer"));
  }
}

TEST_CASE("a stage whose sender does not get on is named, and whom it waits for") {
  for (const Capture capture : {Capture::never, Capture::always}) {
    const std::string text =
        error_of_held(watched(PipeshardParallel{.num_micro_batches = 2}, capture), 0, 2);
    CAPTURE(text);
    CHECK(text.starts_with("stage 1, device 1: instruction "));
    CHECK(text.find("(transfer, forward, micro-batch 1 of 2): waits for device 0") != text.npos);
  }
}

TEST_CASE("a watched step computes what an unwatched one does") {
  emulation::restart({.devices = 2});
  for (const Capture capture : {Capture::never, Capture::always}) {
    const DataParallel data = watched(DataParallel{.num_micro_batches = 2}, capture);
    const PipeshardParallel stages = watched(PipeshardParallel{.num_micro_batches = 4}, capture);
    CHECK(train(data, 2) == train(DataParallel{.num_micro_batches = 2}, 2));
    CHECK(train(stages, 2) == train(PipeshardParallel{.num_micro_batches = 4}, 2));
  }
}

TEST_CASE("a process that does not begin a step is named in that which waits for it") {
  emulation::restart({.devices = 2});
  const auto errors = run_processes(2, [&](int rank) {
    const Executable step = parallelize(staged_mlp_step(kRows, kWidth), watched(DataParallel{}),
                                        Cluster::local(2, "cuda"));
    TrainState state = step.init(3);
    const BatchData batch = staged_mlp_batch();
    step.run(state, batch).loss();
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    step.run(state, batch).loss();
  });
  CAPTURE(errors[0]);
  CHECK(errors[0].find("rank 1 of 2") != errors[0].npos);
  CHECK(errors[0].find("has not begun step 2 after 200 ms") != errors[0].npos);
}

}  // namespace stall_test
