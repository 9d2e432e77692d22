// Tensors that steps return from CUDA devices. Logical devices, if there is one card.
#include <cmath>

#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/cpu_and_cuda.h"
#include "support/cuda.h"
#include "support/difference.h"

namespace cuda_outputs_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 21, kDim = 6;

const nn::Sequential model{nn::Dense(8), nn::Tanh(), nn::Dense(4)};
const std::vector<BatchInput> inputs{{"x", {f32, {kRows, kDim}}}};

/// Of step `n`, so that a batch that came too late would be seen.
std::map<std::string, Array> batch(int n) { return {{"x", linear_dataset(kRows, kDim, n).x}}; }

TrainingStep training() {
  return custom_step(inputs, [](Builder& g, const Batch& b) {
    const Value logits = model(b["x"]);
    output("x", b["x"]);
    output("logits", logits);
    const Value loss = mean(square(logits));
    const Values gradients = mean_gradients(loss, g.parameters());
    g.metric("loss", mean_over_micro_batches("loss", loss));
    g.set_region(Region::apply);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      g.update(g.parameters()[i], g.parameters()[i] - 0.1 * gradients[i]);
  });
}

}  // namespace

TEST_CASE("steps on CUDA devices return the tensors that they return on the CPU") {
  if (no_cuda()) return;
  for (int parts : {1, 3})
    for (int devices : {1, 2, 3}) {
      if (no_cuda(devices)) continue;
      CAPTURE(parts);
      CAPTURE(devices);
      const auto [cpu, cuda] =
          on_cpu_and_cuda(training(), DataParallel{.num_micro_batches = parts}, devices);
      TrainState on_cpu = cpu.init(0), on_cuda = cuda.init(0);
      for (int n = 0; n < 4; ++n) {
        const StepResult expected = cpu.run(on_cpu, batch(n)), result = cuda.run(on_cuda, batch(n));
        CHECK(result.outputs["x"].to_doubles() == batch(n).at("x").to_doubles());
        CHECK(largest_distance(result.outputs["logits"], expected.outputs["logits"]) < 1e-5);
        CHECK(StepResult(result).loss() ==
              doctest::Approx(StepResult(expected).loss()).epsilon(1e-5));
      }
    }
}

TEST_CASE("a tensor that takes over the place of a batch input comes back from CUDA devices") {
  if (no_cuda()) return;
  const TrainingStep step = prediction_step(inputs, [](const Batch& b) { return tanh(b["x"]); });
  const Executable predict = parallelize(step, Serial{}, Cluster::local(1, "cuda"));
  TrainState state = predict.init(0);
  for (int n = 0; n < 4; ++n) {
    const Array x = batch(n).at("x"), result = predict.run(state, batch(n)).outputs["prediction"];
    CHECK(result.at<float>(20, 5) == doctest::Approx(std::tanh(x.at<float>(20, 5))));
  }
}

}  // namespace cuda_outputs_test
