// Numbers and tables beside the batch, on CUDA devices. Logical devices, if there is one card.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/cpu_and_cuda.h"
#include "support/cuda.h"

namespace cuda_whole_inputs_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 12, kDim = 6;

const nn::Sequential model{nn::Dense(8), nn::Tanh(), nn::Dense(kDim)};

TrainingStep masked_step() {
  const auto loss = [](const Batch& b) {
    const Value x = b["x"] * b["mask"];
    return mean(square(model(x) / b["temperature"] - x) * b["mask"]);
  };
  return training_step({{"x", {f32, {kRows, kDim}}},
                        {"mask", {f32, {kDim}}, /*batched=*/false},
                        {"temperature", {f32, {}}, /*batched=*/false}},
                       loss, optim::Adam{.learning_rate = 0.01});
}

/// In step `n` column n is hidden.
std::map<std::string, Array> batch(int n) {
  std::vector<float> mask(kDim, 1);
  mask[n] = 0;
  return {{"x", linear_dataset(kRows, kDim, 1).x},
          {"mask", Array(mask, {kDim})},
          {"temperature", 1 + 0.5 * n}};
}

}  // namespace

TEST_CASE("CUDA devices see masks and numbers of every step as CPU devices do") {
  if (no_cuda()) return;
  for (int parts : {1, 3})
    for (int devices : {1, 2}) {
      if (no_cuda(devices)) continue;
      CAPTURE(parts);
      CAPTURE(devices);
      const auto [cpu, cuda] =
          on_cpu_and_cuda(masked_step(), DataParallel{.num_micro_batches = parts}, devices);
      TrainState on_cpu = cpu.init(0), on_cuda = cuda.init(0);
      std::vector<StepResult> results;  // steps are under way while the next ones are uploaded
      for (int n = 0; n < 5; ++n) results.push_back(cuda.run(on_cuda, batch(n)));
      for (int n = 0; n < 5; ++n)
        CHECK(results[n].loss() == doctest::Approx(cpu.run(on_cpu, batch(n)).loss()).epsilon(1e-4));
    }
}

}  // namespace cuda_whole_inputs_test
