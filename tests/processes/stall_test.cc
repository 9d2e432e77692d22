// A device that does not get on, in a step of several processes: the error is that of one process.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "src/ir/recorder.h"
#include "support/processes.h"
#include "support/watched_op.h"

namespace stall_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 16, kWidth = 8;

/// Two stages; the operator is in stage `stage`.
Executable train_with(int stage, double stall_seconds) {
  const auto model = [stage](const Batch& b) -> LossAndMetrics {
    const nn::Dense dense[2] = {nn::Dense(kWidth), nn::Dense(kWidth)};
    Value h = b["x"];
    for (int l = 0; l < 2; ++l) {
      h = tanh(dense[l](h));
      if (l == stage) h = recorder(h).emit_one(watched, {h});
      if (l == 0) h = mark_pipeline_boundary(h);
    }
    return {mean(square(h)), {}};
  };
  PipeshardParallel method{.num_micro_batches = 4, .stages = UniformStages{2}};
  method.executor.stall_seconds = stall_seconds;
  return parallelize(training_step({{"x", {f32, {kRows, kWidth}}}}, model, optim::Sgd{}), method,
                     Cluster::local(2));
}

void run_step(const Executable& train, TrainState& state) {
  train.run(state, {{"x", Array(std::vector<float>(kRows * kWidth, 0.5F), {kRows, kWidth})}});
}

void sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

}  // namespace

TEST_CASE("a device of another process that stalls is named, and who waits for it") {
  for (const int stage : {0, 1}) {
    // Until the other process has the error: devices that do not come back are given up.
    std::atomic<bool> known{false};
    on_run = [&](const KernelCall& call) {
      while (call.step->micro_batch == 2 && !known) sleep(1);
    };
    const std::vector<std::string> errors = run_processes(2, [&](int rank) {
      const Executable train = train_with(stage, 0.3);
      TrainState state = train.init(1);
      try {
        run_step(train, state);
      } catch (...) {
        if (rank != stage) known = true;
        throw;
      }
    });
    on_run = [](const KernelCall&) {};
    for (const std::string& text : errors) {
      CAPTURE(text);
      CHECK(text.starts_with(fmt::format("stage {}, device {}: instruction ", stage, stage)));
      CHECK(text.find(" 'watched' (watched, forward, micro-batch 3 of 4): not finished after 300 "
                      "ms, and stage ") != text.npos);
      CHECK(text.find(fmt::format(" waits for device {}", stage)) != text.npos);
      CHECK(text.ends_with("; give a larger stall_seconds if it takes longer"));
    }
  }
}

TEST_CASE("a lost process is told with the devices that it waited for") {
  std::atomic<bool> known{false}, freeze{false};
  on_run = [&](const KernelCall& call) {
    if (call.step->micro_batch != 2) return;
    sleep(2500);  // the other process tells meanwhile where it waits
    freeze = true;
    while (!known) sleep(1);
  };
  // Long enough for a thread to get a turn on a busy machine.
  ProcessesOptions options{.protocol = {.silence = std::chrono::seconds(4)}};
  options.launch.fault = [&](const MemoryCall& call) {
    const bool lost = call.rank == 1 && freeze;
    return MemoryFault{.caller = lost ? MemberFate::frozen : MemberFate::runs};
  };
  const std::vector<std::string> errors = run_processes(
      2,
      [&](int rank) {
        const Executable train = train_with(/*stage=*/0, /*stall_seconds=*/0);
        TrainState state = train.init(1);
        try {
          run_step(train, state);
        } catch (...) {
          if (rank == 1) known = true;
          throw;
        }
      },
      options);
  on_run = [](const KernelCall&) {};
  CAPTURE(errors[0]);
  CHECK(errors[0].find("lost rank 1 of 2 (") != errors[0].npos);
  CHECK(errors[0].find("; it was last at step 1, stage 1, device 1: instruction ") !=
        errors[0].npos);
  CHECK(errors[0].find("micro-batch 3 of 4), where it waits for device 0; start the program") !=
        errors[0].npos);
}

TEST_CASE("a slow device of another process is not a stall while it gets on") {
  on_run = [](const KernelCall&) { sleep(200); };
  const std::vector<std::string> errors = run_processes(2, [&](int) {
    const Executable train = train_with(0, 0.6);
    TrainState state = train.init(1);
    run_step(train, state);
  });
  on_run = [](const KernelCall&) {};
  CHECK(errors == std::vector<std::string>{"", ""});
}

TEST_CASE("a process that does not come to the step is named, and where it is") {
  std::atomic<bool> known{false};
  on_run = [](const KernelCall&) {};
  const std::vector<std::string> errors = run_processes(2, [&](int rank) {
    const Executable train = train_with(0, 0.3);
    TrainState state = train.init(1);
    run_step(train, state);
    for (int i = 0; rank == 1 && !known && i < 30000; ++i) sleep(1);
    try {
      run_step(train, state);
    } catch (...) {
      known = true;
      throw;
    }
  });
  for (const std::string& text : errors) {
    CAPTURE(text);
    CHECK(text.starts_with("rank 1 of 2 (host "));
    CHECK(text.find(") has not begun step 2 after 300 ms: it was last at the end of step 1; give a "
                    "larger stall_seconds if it takes longer") != text.npos);
  }
}

}  // namespace stall_test
