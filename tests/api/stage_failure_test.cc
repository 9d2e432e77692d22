// A stage that throws or stalls: one error, which names it, ends the step of all.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <thread>

#include "src/ir/recorder.h"
#include "support/error_text.h"
#include "support/watched_op.h"

namespace stage_failure_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 16, kWidth = 8;

/// Two layers; the operator is twice in layer `layer`.
Executable train_with(int layer, double stall_seconds) {
  const auto model = [layer](const Batch& b) -> LossAndMetrics {
    static const nn::Dense dense[2] = {nn::Dense(kWidth), nn::Dense(kWidth)};
    Value h = b["x"];
    for (int l = 0; l < 2; ++l) {
      h = tanh(dense[l](h));
      for (int twice = 0; l == layer && twice < 2; ++twice) h = recorder(h).emit_one(watched, {h});
      if (l == 0) h = mark_pipeline_boundary(h);
    }
    return {mean(square(h)), {}};
  };
  PipeshardParallel method{.num_micro_batches = 4, .stages = UniformStages{2}};
  method.executor.stall_seconds = stall_seconds;
  return parallelize(training_step({{"x", {f32, {kRows, kWidth}}}}, model, optim::Sgd{}), method,
                     Cluster::local(2));
}

std::map<std::string, Array> batch() {
  return {{"x", Array(std::vector<float>(kRows * kWidth, 0.5F), {kRows, kWidth})}};
}

std::string error_of_step(const Executable& train, TrainState& state) {
  return error_of([&] { train.run(state, batch()); });
}

bool starts_with_place(const std::string& text, int stage) {
  return text.starts_with(fmt::format("stage {}, device {}: instruction ", stage, stage)) &&
         text.find(" 'watched' (watched, forward, micro-batch 3 of 4): ") != text.npos;
}

}  // namespace

TEST_CASE("a stage that throws ends the step of all stages, with its place") {
  for (const int layer : {0, 1})
    for (const double stall_seconds : {0.0, 30.0}) {
      const Executable train = train_with(layer, stall_seconds);
      TrainState state = train.init(1);
      on_run = [](const KernelCall& call) {
        if (call.step->micro_batch == 2) fail("no ink");
      };
      const std::string text = error_of_step(train, state);
      CAPTURE(text);
      CHECK(starts_with_place(text, layer));
      CHECK(text.ends_with(": no ink"));
      on_run = [](const KernelCall&) {};
      TrainState fresh = train.init(1);
      CHECK(train.run(fresh, batch()).loss() > 0);
    }
}

TEST_CASE("a stage that stalls ends the step of all stages, and the error says who waits for it") {
  for (const int layer : {0, 1}) {
    const Executable train = train_with(layer, 0.2);
    TrainState state = train.init(1);
    on_run = [](const KernelCall& call) {
      if (call.step->micro_batch == 2) std::this_thread::sleep_for(std::chrono::milliseconds(450));
    };
    const std::string text = error_of_step(train, state);
    CAPTURE(text);
    CHECK(starts_with_place(text, layer));
    CHECK(text.find(": not finished after 200 ms, and stage ") != text.npos);
    CHECK(text.find(fmt::format(" waits for device {}", layer)) != text.npos);
    CHECK(text.ends_with("; give a larger stall_seconds if it takes longer"));
    CHECK(error_of_step(train, state).starts_with("this state is unusable since a step failed"));
    on_run = [](const KernelCall&) {};
    TrainState fresh = train.init(1);
    CHECK(train.run(fresh, batch()).loss() > 0);
  }
}

TEST_CASE("devices are not watched for less than no time") {
  CHECK(error_of([] { train_with(0, -1); }) ==
        "stall_seconds is -1; give 0, or more for devices to be watched");
}

TEST_CASE("a device that never comes back is given up, and the program goes on without it") {
  std::promise<void> released;
  const std::shared_future<void> release = released.get_future().share();
  std::atomic<bool> back{false}, went_on{false};
  on_run = [&](const KernelCall& call) {
    if (call.step->micro_batch != 2) return;
    if (back) went_on = true;
    release.wait();
    back = true;
  };
  {
    const Executable train = train_with(1, 0.2);
    TrainState state = train.init(1);
    CHECK(starts_with_place(error_of_step(train, state), 1));
    TrainState fresh = train.init(1);
    CHECK(error_of_step(train, fresh) ==
          "a device never came back from a step that stalled; make a new executable");
    CHECK(!back);
  }
  // It still uses its memory when nobody else does.
  released.set_value();
  while (!back) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(!went_on);
}

}  // namespace stage_failure_test
