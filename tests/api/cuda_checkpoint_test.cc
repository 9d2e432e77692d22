// Runs on CUDA devices are saved while steps are in flight, and go on there or on the CPU. Logical
// devices, if there is one card.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cstring>

#include "support/cpu_and_cuda.h"
#include "support/cuda.h"
#include "support/temporary_folder.h"

namespace cuda_checkpoint_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kDim = 6, kBatch = 7;

TrainingStep training() {
  return training_step(
      {{"x", {f32, {kBatch, kDim}}}, {"y", {f32, {kBatch, kDim}}}},
      [model = nn::Sequential{nn::Dense(9), nn::Tanh(), nn::Dropout(0.2), nn::Dense(kDim)}](
          const Batch& b) { return nn::mean_squared_error(model(b["x"]), b["y"]); },
      optim::Adam{.learning_rate = 0.01});
}

bool equal(const TrainState& a, const TrainState& b) {
  for (const std::string& name : a.names()) {
    const Array left = a[name].to_host(), right = b[name].to_host();
    if (left.type() != right.type() || std::memcmp(left.data(), right.data(), left.bytes()) != 0)
      return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a run on CUDA devices goes on bitwise there, and its state is restored on the CPU") {
  if (no_cuda()) return;
  for (const int devices : {1, 2, 3}) {
    if (no_cuda(devices)) continue;
    CAPTURE(devices);
    const TemporaryFolder folder("cuda_checkpoint_test_run");
    const auto [cpu, cuda] = on_cpu_and_cuda(training(), ShardParallel{}, devices);
    const Batches data = batches(linear_dataset(30, kDim, 1), kBatch, 2);
    TrainState whole = cuda.init(4);
    for (const auto& batch : data.epochs(0, 3)) cuda.run(whole, batch);
    {
      Checkpoints saved(folder.path(), {.every = 2});
      TrainState state = cuda.init(4);
      for (const auto& batch : saved.resume(cuda, state, data, 3)) {
        cuda.run(state, batch);
        if (state.step() == 9) break;
      }
    }
    Checkpoints saved(folder.path(), {.every = 2});
    TrainState state = cuda.init(5), on_cpu = cpu.init(6);
    for (const auto& batch : saved.resume(cuda, state, data, 3)) cuda.run(state, batch);
    CHECK(equal(whole, state));
    CHECK(saved.restore(on_cpu, *saved.newest()).step == 15);
    CHECK(equal(on_cpu, state));
  }
}

}  // namespace cuda_checkpoint_test
