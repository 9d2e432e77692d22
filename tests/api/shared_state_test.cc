// One state in several hands: threads that run steps on it, and a state whose step failed.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "src/ir/recorder.h"
#include "src/tensor/kernel.h"
#include "support/copying_op.h"
#include "support/error_text.h"

namespace shared_state_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 6, kDim = 5;

const std::map<std::string, Array>& batch() {
  static const std::map<std::string, Array> batch{
      {"x", Array(std::vector<float>(kRows * kDim, 0.5f), {kRows, kDim})}};
  return batch;
}

/// Mean of squares of x·w, `model` applied to x.
template <class Model>
TrainingStep step_of(const Model& model, Schedule rate) {
  return training_step(
      {{"x", {f32, {kRows, kDim}}}},
      [=](const Batch& b) {
        const Value x = model(b["x"]);
        const Value w = b.builder().parameter("w", {f32, {kDim, 3}}, Initializer::normal(0, 1));
        return mean(square(matmul(x, w)));
      },
      optim::Adam{.learning_rate = std::move(rate)});
}

/// Thrown by the operator below, if set.
std::atomic<bool> broken{false};

void run_breakable(const KernelCall& call) {
  std::copy_n(call.inputs[0].data, call.inputs[0].type.bytes(), call.outputs[0].data);
  if (broken) throw std::runtime_error("out of paper");
}
const KernelDef kBreakableKernel{run_breakable, nullptr, nullptr};

const OpDef breakable = copying_op("breakable", kBreakableKernel);

}  // namespace

TEST_CASE(
    "steps that several threads run on one state follow one another, each with its own number") {
  constexpr int kThreads = 4, kSteps = 25;
  std::mutex mutex;
  std::vector<std::int64_t> numbers;
  const auto rate = [&](std::int64_t step) {
    const std::lock_guard lock(mutex);
    numbers.push_back(step);
    return 1.0 / static_cast<double>(step);
  };
  const auto same = [](Value x) { return x; };
  for (int devices : {1, 3}) {
    CAPTURE(devices);
    const Executable train =
        parallelize(step_of(same, rate), DataParallel{}, Cluster::local(devices));
    TrainState alone = train.init(0), shared = train.init(0);
    for (int i = 0; i < kThreads * kSteps; ++i) train.run(alone, batch());
    numbers.clear();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (std::int64_t i = 0, before = 0; i < kSteps; ++i) {
          train.run(shared, batch());
          CHECK(shared.step() > std::exchange(before, shared.step()));
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(shared.step() == kThreads * kSteps);
    CHECK(std::is_sorted(numbers.begin(), numbers.end(), std::less_equal<>()));  // each once
    for (const std::string& name : alone.names())
      CHECK(shared[name].to_host().to_doubles() == alone[name].to_host().to_doubles());
  }
}

TEST_CASE("a state whose step failed is neither read nor written any more") {
  const auto model = [](Value x) { return recorder(x).emit_one(breakable, {x}); };
  const auto rate = [](std::int64_t) { return 1e-3; };
  const Executable train = parallelize(step_of(model, rate), DataParallel{}, Cluster::local(2));
  TrainState failed = train.init(0), good = train.init(1);
  const Array w = good["w"].to_host();
  const DistributedArray kept = failed["w"];
  broken = true;
  const std::string cause = error_of([&] { train.run(failed, batch()); });
  broken = false;
  CHECK(cause.ends_with("out of paper"));
  const std::string message = "this state is unusable since a step failed: " + cause +
                              "; make a new one or restore a checkpoint";
  CHECK(error_of([&] { kept.to_host(); }) == message);
  CHECK(error_of([&] { failed["w"].to_host(); }) == message);
  CHECK(error_of([&] { failed["w"] = w; }) == message);
  CHECK(error_of([&] { failed.copy_from(good); }) == message);
  CHECK(error_of([&] { good.copy_from(failed); }) == message);
  CHECK(error_of([&] { train.run(failed, batch()); }) == message);
  CHECK(good["w"].to_host().to_doubles() == w.to_doubles());
  CHECK(train.run(good, batch()).loss() > 0);
}

}  // namespace shared_state_test
