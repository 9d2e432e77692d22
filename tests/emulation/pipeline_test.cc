// Stages on CUDA devices, planned and joined from a user's program, compute what they do on CPUs.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "emulation.h"
#include "support/staged_mlp.h"

namespace pipeline_test {

using namespace alpa;

namespace {

/// Losses of two training steps and an evaluation. `tied`: the last stage reads the first kernel.
std::vector<double> losses(const PipeshardParallel& method, const std::string& backend,
                           bool tied = false) {
  const nn::Dense dense[3] = {nn::Dense(16), nn::Dense(12), nn::Dense(8)};
  const std::vector<BatchInput> inputs = {{"x", {f32, {16, 8}}}, {"y", {f32, {16, 8}}}};
  const auto loss = [&](const Batch& b) {
    const Value h = mark_pipeline_boundary(relu(dense[0](b["x"])));
    Value y = dense[2](relu(dense[1](h)));
    if (tied) y = y + einsum("bo,io->bi", h, dense[0].kernel(b.builder(), 8));
    return nn::mean_squared_error(y, b["y"]);
  };
  const auto [train, evaluate] =
      parallelize(training_step(inputs, loss, optim::Adam{}, {.clip_global_norm = 0.5}),
                  evaluation_step(inputs, loss), method, Cluster::local(4, backend));
  TrainState state = train.init(0);
  const Dataset data = linear_dataset(16, 8, 1);
  const std::map<std::string, Array> batch = {{"x", data.x}, {"y", data.y}};
  std::vector<double> values;
  for (int i = 0; i < 2; ++i) values.push_back(train.run(state, batch).loss());
  values.push_back(evaluate.run(state, batch).loss());
  CHECK(train.measured_bytes(state) == train.memory_bytes());
  return values;
}

}  // namespace

TEST_CASE("stages on one card and on several are as on the CPU, in planned memory") {
  for (const int cards : {1, 4})
    for (const int micro_batches : {1, 4}) {
      CAPTURE(cards);
      CAPTURE(micro_batches);
      emulation::restart({.devices = cards});
      const PipeshardParallel method{.num_micro_batches = micro_batches};
      const auto cuda = losses(method, "cuda"), cpu = losses(method, "cpu");
      for (std::size_t i = 0; i < cpu.size(); ++i)
        CHECK(cuda[i] == doctest::Approx(cpu[i]).epsilon(1e-5));
    }
}

TEST_CASE("weights that cross the stages once per step are on cards what they are on the CPU") {
  for (const int cards : {1, 4})
    for (const auto schedule : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                ScheduleKind::one_f_one_b_overlap, ScheduleKind::zero_bubble}) {
      CAPTURE(cards);
      CAPTURE(name_of(schedule));
      emulation::restart({.devices = cards});
      const PipeshardParallel method{.num_micro_batches = 4, .schedule = schedule};
      const auto cuda = losses(method, "cuda", true), cpu = losses(method, "cpu", true);
      for (std::size_t i = 0; i < cpu.size(); ++i)
        CHECK(cuda[i] == doctest::Approx(cpu[i]).epsilon(1e-5));
    }
}

TEST_CASE("a stage's receive waits for its sender without occupying the card") {
  for (const Capture capture : {Capture::never, Capture::always}) {
    emulation::restart({.devices = 2});
    PipeshardParallel method{.num_micro_batches = 4};
    method.executor.tune = false;
    method.executor.capture = capture;
    const Executable train =
        parallelize(alpa::testing::staged_mlp_step(16, 8), method, Cluster::local(2, "cuda"));
    TrainState state = train.init(0);
    Array x({f32, {16, 8}});
    std::ranges::fill(x.mutable_elements_as<float>(), 0.5F);
    const std::map<std::string, Array> batch = {{"x", x}};
    train.run(state, batch).loss();
    const int before = emulation::totals().messages;
    emulation::hold(0, true);
    const StepResult step = train.run(state, batch);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(emulation::totals().messages == before);
    emulation::hold(0, false);
    CHECK(step.loss() > 0);
    CHECK(emulation::totals().messages == before + 2 * 2 * 4);  // both ways, both sides
  }
}

}  // namespace pipeline_test
